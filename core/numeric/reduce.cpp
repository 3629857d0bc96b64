#include <cmath>

#include <fmt/format.h>

#include <sinew/core/base/names.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/numeric/reduce_kernels.hpp>

namespace sinew {
namespace {

constexpr Spelling<ReduceOp> kReduceOpNames[] = {
    {"sum", ReduceOp::Sum},         {"prod", ReduceOp::Product}, {"min", ReduceOp::Min},
    {"max", ReduceOp::Max},         {"avg", ReduceOp::Average},  {"premulsum", ReduceOp::PreMulSum},
    {"band", ReduceOp::BitAnd},     {"bor", ReduceOp::BitOr},    {"bxor", ReduceOp::BitXor},
    {"user", ReduceOp::User},       {"add", ReduceOp::Sum},      {"product", ReduceOp::Product},
    {"average", ReduceOp::Average}, {"mean", ReduceOp::Average}, {"mulsum", ReduceOp::PreMulSum},
    {"and", ReduceOp::BitAnd},      {"or", ReduceOp::BitOr},     {"xor", ReduceOp::BitXor},
};

constexpr ReduceOp kBuiltIn[] = {ReduceOp::Sum,    ReduceOp::Product, ReduceOp::Min,
                                 ReduceOp::Max,    ReduceOp::Average, ReduceOp::PreMulSum,
                                 ReduceOp::BitAnd, ReduceOp::BitOr,   ReduceOp::BitXor};

constexpr double kLargestDivisor = 2147483647.0;

Kernels kernels_for(ReduceOp op, DType dtype) {
  if (op == ReduceOp::User) throw Error(Code::InvalidArgument, "operator user: its kernel is the caller's own Reducer");
  if (!is_defined(op, dtype)) {
    throw Error(Code::InvalidArgument, fmt::format("operator {} on {}: expected {}", name_of(op), name_of(dtype),
                                                   is_bitwise(op)              ? "an integer type or bool"
                                                   : op == ReduceOp::PreMulSum ? "a floating-point type"
                                                                               : "a type of numbers"));
  }
  if (is_bitwise(op)) return bitwise_kernels(op, dtype);
  if (dtype == DType::Bool) return integer_kernels(bool_op_on_bytes(op), DType::U8);
  if (is_integer(dtype)) return integer_kernels(op, dtype);
  return size_of(dtype) >= 4 ? float_kernels(op, dtype) : narrow_float_kernels(op, dtype);
}

}  // namespace

std::string_view name_of(ReduceOp op) noexcept { return find_name(kReduceOpNames, op); }

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) noexcept { return find_value(kReduceOpNames, name); }

std::span<const ReduceOp> all_reduce_ops() noexcept { return kBuiltIn; }

Reducer reducer_for(ReduceOp op, DType dtype) {
  return {kernels_for(op, dtype).pair, nullptr, static_cast<std::uint32_t>(size_of(dtype))};
}

ManyReducer many_reducer_for(ReduceOp op, DType dtype) {
  return {kernels_for(op, dtype).many, static_cast<std::uint32_t>(size_of(dtype))};
}

Scaler scaler_for(DType dtype, double factor) {
  const double divisor = std::nearbyint(1.0 / factor);
  if (dtype == DType::Bool && factor != 1.0)
    throw Error(Code::InvalidArgument, fmt::format("scaling bool by {}: expected a type of numbers", factor));
  if (is_integer(dtype) && !(divisor >= 1 && divisor <= kLargestDivisor && 1.0 / divisor == factor)) {
    throw Error(Code::InvalidArgument, fmt::format("scaling {} by {}: expected 1.0 / n for a whole n from 1 to {:.0f}",
                                                   name_of(dtype), factor, kLargestDivisor));
  }
  return {scale_kernel(dtype), factor, static_cast<std::uint32_t>(size_of(dtype))};
}

}  // namespace sinew
