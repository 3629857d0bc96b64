#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/placement/box.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

/// The facts about a tensor that all ranks know.
/// Shape: of the whole tensor, row-major. {} is one number.
struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  Placements placements;

  SINEW_API std::int64_t elements() const noexcept;
  /// "'w1' (f32 [8, 1024])"
  SINEW_API std::string to_string() const;
};

/// A tensor with the data that `placements` put on this rank: contiguous, row-major, at `buffer`. A parameter is one.
struct Tensor : TensorSpec {
  Buffer buffer;
};

/// Throws unless the mesh can hold the tensor with its placements. The result does not depend on the rank: it throws on
/// all ranks or on none.
/// Errors: InvalidArgument naming the tensor and the axis. For an axis that the mesh lacks, and for two entries that
///         share an axis. For a dimension that the tensor lacks. For offsets that do not ascend from 0 to the extent,
///         or are not one more than the axis has ranks. For offsets that cut the parts of another axis, if these differ
///         in length. For an operator that is not defined for the dtype, or that needs more than the data (premulsum,
///         user).
SINEW_API void require_valid(const TensorSpec& spec, const Factorisation& mesh);

/// The part of the tensor that `rank` of `mesh` holds.
/// Errors: as require_valid.
SINEW_API Box local_box(const TensorSpec& spec, const Factorisation& mesh, int rank);
/// Bytes of that part, which the buffer of a Tensor has.
SINEW_API std::size_t local_bytes(const TensorSpec& spec, const Factorisation& mesh, int rank);

}  // namespace sinew::parallel
