#pragma once

#include <string>
#include <vector>

#include <sinew/core/collective.hpp>
#include <sinew/core/cost.hpp>
#include <sinew/core/export.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// One step between two placements, along one axis.
struct Transition {
  std::string axis;
  Placement from, to;
  /// all_gather(_v), all_reduce, reduce_scatter(_v), all_to_all_v; Barrier: none, a copy on this rank alone.
  Collective collective = Collective::Barrier;
  Seconds predicted = 0;
};

/// The way from one placement of a tensor to another.
struct Redistribution {
  TensorSpec from;
  Placements to;
  std::vector<Transition> steps;

  /// The steps with their predicted times, and the sum.
  std::string explain() const;
};

/// The cheapest way, by what the communicators of `mesh` predict for each step. The same on all ranks; communicates
/// nothing. Shard to Replicate is an all_gather, Partial to Replicate an all_reduce, Partial to Shard a reduce_scatter,
/// Shard to another Shard an all_to_all; Replicate to Shard or Partial costs a copy. Which axis goes first, and whether
/// by way of a third placement, is searched (Dijkstra).
/// Errors: InvalidArgument naming tensor and axis: where something that is whole should become a part of a sum by way
///         of no defined value (Shard to Partial is by Replicate: allowed), an op that is not defined for the dtype, a
///         group that the mesh has not.
SINEW_API Redistribution plan_redistribution(const TensorSpec& from, const Placements& to, const Mesh& mesh);

/// Moves the data of `from` to `to`, whose buffers do not overlap. Collective over the axes that change.
/// Errors: as plan_redistribution; InvalidArgument where name, dtype or shape of the two differ or a buffer has not
///         the bytes of its box; as the collectives.
SINEW_API void redistribute(const Tensor& from, const Tensor& to, Mesh& mesh);

}  // namespace sinew::parallel
