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
/// Shape: `shape` is that of the whole tensor, row-major. {} is a scalar.
struct TensorSpec {
  std::string name{};
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape{};
  Placements placements{};

  SINEW_API std::int64_t elements() const noexcept;
  /// "'w1' (f32 [8, 1024])"
  SINEW_API std::string to_string() const;
};

/// A tensor with the data that `placements` put on this rank: contiguous, row-major, at `buffer`. A parameter of a
/// model is a Tensor.
struct Tensor : TensorSpec {
  Buffer buffer;
};

/// Throws unless the mesh can hold the tensor with its placements. The result does not depend on the rank: it throws on
/// all ranks or on none.
/// Errors: InvalidArgument naming the tensor and the axis. It is thrown for an axis that the mesh lacks, for two
///         entries that share an axis, and for a dimension that the tensor lacks. It is thrown for offsets that do not
///         ascend from 0 to the extent, and for another number of offsets than the ranks of the axis plus one. Offsets
///         may cut the parts of another axis only if these parts have one length. The operator must be defined for the
///         dtype, and must need only the data (premulsum and user need more).
SINEW_API void require_valid(const TensorSpec& spec, const Factorisation& mesh);

/// The part of the tensor that `rank` of `mesh` holds.
/// Errors: as require_valid.
SINEW_API Box local_box(const TensorSpec& spec, const Factorisation& mesh, int rank);
/// Bytes of that part: the length of a Tensor's buffer.
SINEW_API std::size_t local_bytes(const TensorSpec& spec, const Factorisation& mesh, int rank);

}  // namespace sinew::parallel
