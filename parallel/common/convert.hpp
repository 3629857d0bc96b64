#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/dtype.hpp>

namespace sinew::parallel {

/// Copies `count` elements and converts them to another dtype. Equal dtypes keep all bits. Others are converted to f32
/// and from there to the second dtype, each time to nearest even, so f64 that becomes 16 bits is rounded twice.
/// Shape: dtypes of floating point, or equal ones. The buffers do not overlap. Any alignment.
void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::int64_t count) noexcept;

}  // namespace sinew::parallel
