#pragma once

#include <cstdint>

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::check {

/// PreMulSum: what to pass as CallOptions::pre_multiply.
inline constexpr double kPreMultiply = 2.0;

/// Largest n such that the dtype holds every integer from 0 to n; capped where more is of no use.
std::int64_t exact_limit(DType dtype) noexcept;

/// What `rank` contributes at `index`: an integer; for bitwise operators the bits of one.
/// Source: chosen so that any partial combination of any ranks is exact in the dtype.
std::int64_t contribution(ReduceOp op, DType dtype, int ranks, int rank, std::uint64_t index);

/// All contributions combined. Average: the sum, to be scaled once.
std::int64_t combination(ReduceOp op, DType dtype, int ranks, std::uint64_t index);

/// 64 well mixed bits of two numbers.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept;

}  // namespace sinew::check
