#pragma once

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
  std::string axis;
  Placement from, to;
  /// all_gather(_v), all_reduce, reduce_scatter(_v), all_to_all(_v); Barrier: none, a copy on this rank alone.
  Collective collective = Collective::Barrier;
  Seconds predicted = 0;  ///< with the copies that put parts in order; of the largest boxes
};

/// The way from one placement of a tensor to another. No steps: both put the same data on every rank.
struct Redistribution {
  TensorSpec from;
  Placements to;
  std::vector<Transition> steps;

  SINEW_API Seconds predicted() const noexcept;
  /// The steps with their predicted times, and the sum.
  SINEW_API std::string explain() const;
};

/// The cheapest way, by what the communicators of `mesh` predict for each step, the slowest group of an axis deciding.
/// The same on all ranks.
///   Shard to Replicate: all_gather.         Partial to Replicate: all_reduce.
///   Shard to another Shard: all_to_all.     Partial to Shard: reduce_scatter.
///   Replicate to Shard: each rank keeps its part. Replicate, Shard to Partial: the first rank of the axis, or each
///   rank its part, keeps the data; the rest is what changes nothing under the operator (a sum: -0 of floats, product:
///   1, min and max: the largest and the least value, infinite where there is that). An average has no such value:
///   from Replicate every rank keeps its data, from Shard it is by way of Replicate. Nothing of this is sent.
/// Only the innermost of several shards of a dimension, or of Partials whose order matters, can change. Which axis goes
/// first, and by way of what, is searched: among Replicate, what each axis has and shall have, and shards of the
/// dimensions that any axis shards.
/// Errors: InvalidArgument, on all ranks alike: as require_valid of both ends; where the mesh has no group along an
///         axis that has a placement at either; where ranks ask for different things, with what two of them ask for.
/// Cost:   collective over the mesh: along each of its groups two small all_reduces, to see that all ask for the same;
///         where several axes have placements, one more along these, of 8 bytes for each exchange that may be chosen
///         (groups of one axis may predict different times, and must choose alike). A search through some 5^axes
///         states. So plan once what is moved often.
SINEW_API Redistribution plan_redistribution(const TensorSpec& from, const Placements& to, Mesh& mesh,
                                             const CallOptions& = {});

/// Moves the data of plan.from at `from` to plan.to at `to`, step by step.
/// Shape:   buffers of the bytes of the two boxes (local_bytes), in host memory, that do not overlap.
/// Options: deadline, determinism and where.
/// Errors:  InvalidArgument, on the spot, naming tensor, buffer, the bytes found and expected; as the collectives.
/// Cost:    scratch for what lies between two steps, and for parts that do not lie one behind the other.
SINEW_API void redistribute(const Redistribution& plan, ConstBuffer from, Buffer to, Mesh& mesh,
                            const CallOptions& = {});

/// Both: plans the way from the one to the other, and goes it.
/// Errors: as both, but all of InvalidArgument on all ranks, whichever has the fault; and where name, dtype or shape of
///         the two differ.
SINEW_API void redistribute(const Tensor& from, const Tensor& to, Mesh& mesh, const CallOptions& = {});

}  // namespace sinew::parallel
