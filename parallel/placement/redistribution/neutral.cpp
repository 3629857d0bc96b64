#include <cstring>
#include <limits>

#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/placement/redistribution/neutral.hpp>

namespace sinew::parallel {
namespace {

/// An element in the lowest bytes.
template <class T>
std::uint64_t bits_of(T value) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
std::uint64_t of_integer(ReduceOp op) noexcept {
  using Limits = std::numeric_limits<T>;
  if (op == ReduceOp::Product) return bits_of(T{1});
  if (op == ReduceOp::Min) return bits_of(Limits::max());
  if (op == ReduceOp::Max) return bits_of(Limits::lowest());
  return op == ReduceOp::BitAnd ? ~std::uint64_t{0} : 0;
}

double of_float(ReduceOp op, double largest) noexcept {
  if (op == ReduceOp::Product) return 1.0;
  if (op == ReduceOp::Min) return largest;
  return op == ReduceOp::Max ? -largest : -0.0;
}

std::uint64_t neutral_bits(DType dtype, ReduceOp op) noexcept {
  const double value = of_float(op, std::numeric_limits<double>::infinity());
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::Bool: return op == ReduceOp::Product || op == ReduceOp::Min || op == ReduceOp::BitAnd ? 1 : 0;
    case DType::I16: return of_integer<std::int16_t>(op);
    case DType::U16: return of_integer<std::uint16_t>(op);
    case DType::I8: return of_integer<std::int8_t>(op);
    case DType::U8: return of_integer<std::uint8_t>(op);
    case DType::I32: return of_integer<std::int32_t>(op);
    case DType::U32: return of_integer<std::uint32_t>(op);
    case DType::I64: return of_integer<std::int64_t>(op);
    case DType::U64: return of_integer<std::uint64_t>(op);
    case DType::F16: return bits_of(to_half(narrow).bits);
    case DType::BF16: return bits_of(to_bfloat16(narrow).bits);
    case DType::F32: return bits_of(narrow);
    case DType::F64: return bits_of(value);
    case DType::F8E4M3: return bits_of(to_float8_e4m3(static_cast<float>(of_float(op, 448.0))).bits);
    case DType::F8E5M2: return bits_of(to_float8_e5m2(narrow).bits);
  }
  return 0;
}

}  // namespace

void fill_neutral(Buffer out, DType dtype, ReduceOp op) {
  const std::uint64_t bits = neutral_bits(dtype, op);
  const std::size_t each = size_of(dtype);
  for (std::size_t at = 0; at < out.bytes; at += each) std::memcpy(out.data + at, &bits, each);
}

}  // namespace sinew::parallel
