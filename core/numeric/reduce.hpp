#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {

/// How contributions are combined. Average is a sum that is scaled once by 1/ranks at the end. Averages of integers are
/// truncated, and Bool has none. PreMulSum scales every contribution by `CallOptions::pre_multiply` before the sum.
enum class ReduceOp : std::uint8_t { Sum, Product, Min, Max, Average, PreMulSum, BitAnd, BitOr, BitXor, User };

inline constexpr std::size_t kReduceOpCount = 10;

SINEW_API std::string_view name_of(ReduceOp op) noexcept;
SINEW_API std::optional<ReduceOp> reduce_op_from_name(std::string_view name) noexcept;
/// Every built-in operator (all but User).
SINEW_API std::span<const ReduceOp> all_reduce_ops() noexcept;

constexpr bool is_bitwise(ReduceOp op) noexcept { return op >= ReduceOp::BitAnd && op <= ReduceOp::BitXor; }
/// Returns the operator on u8 that gives the result of `op` on Bool.
constexpr ReduceOp bool_op_on_bytes(ReduceOp op) noexcept {
  if (op == ReduceOp::Sum) return ReduceOp::Max;
  return op == ReduceOp::Product ? ReduceOp::Min : op;
}
/// Bitwise operators need integers or Bool. PreMulSum needs floats. Average is not defined for Bool.
constexpr bool is_defined(ReduceOp op, DType dtype) noexcept {
  if (is_bitwise(op)) return is_integer(dtype);
  if (op == ReduceOp::Average) return dtype != DType::Bool;
  return op != ReduceOp::PreMulSum || !is_integer(dtype);
}

/// dst[i] = a[i] (op) b[i] for `count` elements. dst may be a or b or disjoint from both; any alignment.
/// `context` is the user's pointer for User, else unused.
using ReduceFn = void (*)(void* dst, const void* a, const void* b, std::size_t count, const void* context) noexcept;

/// A kernel resolved once per plan: calling it costs one indirect call. Copyable data.
struct Reducer {
  ReduceFn fn = nullptr;
  const void* context = nullptr;
  std::uint32_t element_bytes = 1;

  friend bool operator==(const Reducer&, const Reducer&) = default;
  void operator()(void* dst, const void* a, const void* b, std::size_t bytes) const noexcept {
    fn(dst, a, b, bytes / element_bytes, context);
  }
};

/// The kernel for op on dtype, for the best instruction set of this CPU. Average and PreMulSum resolve to the sum.
/// Min and Max of floats: a NaN in either operand gives NaN, and -0 is less than +0. Swapping the operands of any
/// built-in operator changes no bit: every NaN that comes out is the same one.
/// Errors: throws Error{InvalidArgument} where !is_defined(op, dtype) or op is User.
SINEW_API Reducer reducer_for(ReduceOp op, DType dtype);

/// dst[i] = sources[0][i] (op) sources[1][i] (op) ... from left to right, for `count` elements of at least one source.
/// dst may be one of the sources or disjoint from all; any alignment.
using ReduceManyFn = void (*)(void* dst, const void* const* sources, int sources_count, std::size_t count) noexcept;

/// Combines what several ranks hold in one pass. The 16-bit and 8-bit floats are accumulated in f32 over all sources
/// and rounded once: other bits than a chain of Reducers gives, the same bits wherever the sources stand in one order.
struct ManyReducer {
  ReduceManyFn fn = nullptr;
  std::uint32_t element_bytes = 1;

  void operator()(void* dst, const void* const* sources, int sources_count, std::size_t bytes) const noexcept {
    fn(dst, sources, sources_count, bytes / element_bytes);
  }
};

/// As reducer_for, for any number of sources.
SINEW_API ManyReducer many_reducer_for(ReduceOp op, DType dtype);

/// dst[i] = src[i] * factor, rounded once; integers are divided by 1/factor with truncation (Average's last step).
/// f64 is divided by n where factor is 1/n, so that the average is correctly rounded. dst may be src. The element map
/// `Scale` of schedules.
struct Scaler {
  void (*fn)(void* dst, const void* src, std::size_t count, double factor) noexcept = nullptr;
  double factor = 1.0;
  std::uint32_t element_bytes = 1;

  void operator()(void* dst, const void* src, std::size_t bytes) const noexcept {
    fn(dst, src, bytes / element_bytes, factor);
  }
};

/// Errors: throws Error{InvalidArgument} for an integer type and a factor that is not 1.0 / n for a whole n below 2^31.
SINEW_API Scaler scaler_for(DType dtype, double factor);

/// The instruction set in use: "AVX3_ZEN4", "AVX2", "NEON", ...
SINEW_API std::string_view kernel_target() noexcept;

}  // namespace sinew
