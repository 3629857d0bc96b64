#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

// Each takes a graph that check() passes and returns one, equal on all ranks where the graph is.

/// Each tensor travels alone.
struct NoBuckets {};
/// Tensors whose paths are equal but for the last word travel together: "blocks.3.attention".
struct LayerBuckets {};
/// Tensors whose paths are equal up to the first number: "blocks.3".
struct BlockBuckets {};
/// As many as fill `bytes`; a longer tensor travels alone. The first bucket is smaller, so that something is on its way
/// soon, and so is the last one, which nothing hides.
struct ByteBuckets {
  std::int64_t bytes = 25 << 20;
  std::int64_t first_bytes = 1 << 20;
  std::int64_t last_bytes = 1 << 20;
};
using BucketPolicy = std::variant<NoBuckets, LayerBuckets, BlockBuckets, ByteBuckets>;

/// Puts exchanges of one kind, axes and dtypes together that follow each other, where nothing between needs the first
/// before the last can start.
/// Source: buckets and their defaults as PyTorch DDP; layers and blocks as Lightning Thunder.
SINEW_API StepGraph bucket(StepGraph graph, const BucketPolicy& policy);

/// Starts each exchange as soon as what it needs is there, and the room that it asks for, in the same order among
/// exchanges.
SINEW_API StepGraph issue_early(StepGraph graph);
/// Waits for each exchange no sooner than its tensors are needed, or at the end.
SINEW_API StepGraph wait_late(StepGraph graph);

/// Delays exchanges until those under way, or gathered and not freed, leave room for them below `bytes`; one that is
/// needed at once, or larger than that alone, starts when nothing else can be given back.
SINEW_API StepGraph limit_in_flight(StepGraph graph, std::int64_t bytes);

/// Without the exchanges, waits and frees of these tensors, such as gradients while they are accumulated (no_sync).
SINEW_API StepGraph drop_sync(StepGraph graph, const std::vector<TensorId>& tensors);

/// A graph of computes (step_graph/placed_graph.hpp) with the exchanges that send the least bytes, then the fewest: what is
/// gathered and split again stays in parts, where all that lies between can go on in parts; what is exchanged twice is
/// exchanged once; sums that are missing in several tensors are made once where these are added; what is summed and
/// split is reduce-scattered; and whatever else follows from placements.
///   Along each axis a compute may have any placements that its rule allows, and a tensor takes the cheapest way from
///   where it is made to where it is read. The best of all is found for all together, forward and backward.
///   Gates, signals, and the placements of their tensors stay. Ranks that share a compute's work go on to do so.
///   Parameters, and whatever else the engine gives, travel only if they did.
///   A result is taken only if check_placements() and same_values() prove it.
/// Errors: InvalidArgument for a graph that check_placements() refuses.
/// Cost:   grows as the graph does: 24 layers, forward and backward, are 2,200 nodes and take a second.
SINEW_API StepGraph remove_redundant_exchanges(StepGraph graph, const Factorisation& mesh);

}  // namespace sinew::parallel
