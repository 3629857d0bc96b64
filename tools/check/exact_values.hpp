#pragma once

#include <cstdint>

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::check {

/// The value for CallOptions::pre_multiply of PreMulSum.
inline constexpr double kPreMultiply = 2.0;

/// The largest n such that the dtype holds every integer from 0 to n. Capped, because a larger n is of no use.
std::int64_t exact_limit(DType dtype) noexcept;

/// The element that `rank` contributes at `index`: an integer, or the bits of one for bitwise operators. The values are
/// chosen so that every partial combination of any ranks is exact in the dtype.
std::int64_t contribution(ReduceOp op, DType dtype, int ranks, int rank, std::uint64_t index);

/// The combination of all contributions. Average: their sum, not yet scaled.
std::int64_t combination(ReduceOp op, DType dtype, int ranks, std::uint64_t index);

/// 64 well mixed bits made from two numbers.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept;

}  // namespace sinew::check
