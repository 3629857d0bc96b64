#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

/// Half-open ranges of a tensor's indices, one per dimension.
struct Box {
  std::vector<std::int64_t> first, last;
  std::int64_t elements() const noexcept;
  friend bool operator==(const Box&, const Box&) = default;
};

/// What is known of a tensor on all ranks alike.
/// Shape: that of the whole tensor, row-major; {} is one number.
struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  Placements placements;

  std::int64_t elements() const noexcept;
};

/// A tensor, of which this rank holds what `placements` say, contiguous, row-major, at `buffer`. A parameter is one.
struct Tensor : TensorSpec {
  Buffer buffer;
};

/// Which part of the tensor `rank` of `mesh` holds.
/// Errors: InvalidArgument naming the tensor, for an unknown axis, a dimension that it has not, offsets that do not
///         ascend from 0 to the extent with one more than the axis has ranks, offsets below another axis' cut that do
///         not fit that cut's parts.
SINEW_API Box local_box(const TensorSpec& spec, const Factorisation& mesh, int rank);

}  // namespace sinew::parallel
