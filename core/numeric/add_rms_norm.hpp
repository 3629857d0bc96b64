#pragma once

#include <cstddef>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {

/// The end of a layer of a transformer, for rows of `width` elements of one dtype.
struct AddRmsNorm {
  DType dtype = DType::BF16;
  std::size_t width = 0;
  double epsilon = 1e-6;
  const void* weight = nullptr;  ///< `width` elements
};

/// True for F16, BF16, F32 and F64.
SINEW_API bool has_add_rms_norm(DType dtype) noexcept;

/// Adds `added` to the residual, and divides each row of the result by its root mean square:
///   new_residual[i] = residual[i] + added[i]
///   normed[i]       = new_residual[i] / sqrt(mean of new_residual[j]^2 over the row + epsilon) * weight[i mod width]
/// Shape: `rows` rows in each array. new_residual may be `residual`, and normed may be `added`. Otherwise arrays that
///        are written share no byte with another one. Any alignment.
/// Exact: F16 and BF16 are computed in f32. Each result is rounded once, and the norm is that of the rounded residual.
///        The sum of a row's squares depends in its last bits on the CPU's vectors.
/// Cost:  each array is read or written once, and a row of new_residual a second time from the first-level cache.
/// Precondition: has_add_rms_norm(shape.dtype), and width is not 0.
SINEW_API void add_rms_norm(const AddRmsNorm& shape, std::size_t rows, void* normed, void* new_residual,
                            const void* residual, const void* added) noexcept;

}  // namespace sinew
