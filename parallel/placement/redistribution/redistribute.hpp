#pragma once

// Changes of placements. The room finds the cheapest sequence of collectives from one placement of a tensor to another,
// and runs it. It may include the room `placement` and the mesh.

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// One step between two placements, along one axis.
struct Transition {
  std::string axis{};
  Placement from{}, to{};
  /// all_gather(_v), all_reduce, reduce_scatter(_v) or all_to_all(_v). Barrier: no collective, a copy on this rank
  /// only.
  Collective collective = Collective::Barrier;
  Seconds predicted = 0;  ///< includes the copies that put parts in order; computed for the largest boxes
};

/// The steps from one placement of a tensor to another. No steps: both put the same data on every rank.
struct Redistribution {
  TensorSpec from{};
  Placements to{};
  std::vector<Transition> steps{};

  SINEW_API Seconds predicted() const noexcept;
  /// The steps with their predicted times, and the sum.
  SINEW_API std::string explain() const;
};

/// The cheapest sequence of steps. Costs are the predictions of the mesh's communicators; the slowest group of an axis
/// decides. The result is the same on all ranks.
///   Shard to Replicate: all_gather.         Partial to Replicate: all_reduce.
///   Shard to another Shard: all_to_all.     Partial to Shard: reduce_scatter.
///   Replicate to Shard: each rank keeps its part, and nothing is sent.
///   Replicate to Partial: the first rank of the axis keeps the data. The other ranks get the neutral element of the
///     operator: -0 for a sum of floats, 1 for a product, the largest and the smallest value for min and max. An
///     average has no neutral element: every rank keeps its data. Nothing is sent.
///   Shard to Partial: each rank keeps its part, and the rest is the neutral element. Nothing is sent. For an average
///     the step goes by way of Replicate.
/// If several axes shard one dimension, or several Partials have an order that matters, only the innermost can change.
/// The order of the axes and the placements between are found by a search. For each axis it tries Replicate, the
/// placements in `from` and `to`, and shards of the dimensions that any axis shards.
/// Errors: InvalidArgument on all ranks alike, as require_valid for both ends. It is also thrown if the mesh has no
///         group along an axis that has a placement at either end. If ranks ask for different things, its text has two
///         of the requests.
/// Cost:   collective over the mesh. Two small all_reduces along each group of the mesh check that all ranks ask for
///         the same. If several axes have placements, one more all_reduce runs along these axes, with 8 bytes for each
///         exchange that may be chosen. It is needed because groups of one axis may predict different times, and must
///         choose alike. The search goes through about 5^axes states. So plan once for data that is moved often.
SINEW_API Redistribution plan_redistribution(const TensorSpec& from, const Placements& to, Mesh& mesh,
                                             const CallOptions& = {});

/// Moves the data of plan.from at `from` to plan.to at `to`, step by step.
/// Shape:   disjoint buffers of the bytes of the two boxes (local_bytes), in host memory.
/// Options: deadline, determinism, label and where.
/// Errors:  InvalidArgument at once, naming tensor, buffer, the bytes found and expected. Otherwise as the collectives.
/// Cost:    scratch for the data between two steps, and for parts that are not contiguous in memory.
SINEW_API void redistribute(const Redistribution& plan, ConstBuffer from, Buffer to, Mesh& mesh,
                            const CallOptions& = {});

/// Plans the steps from one tensor's placements to the other's, and runs them.
/// Errors: as both functions above, but every InvalidArgument is thrown on all ranks, whichever rank has the fault. It
///         is also thrown if name, dtype or shape of the two tensors differ.
SINEW_API void redistribute(const Tensor& from, const Tensor& to, Mesh& mesh, const CallOptions& = {});

}  // namespace sinew::parallel
