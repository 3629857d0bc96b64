#pragma once

// Functions from step graph to step graph. The room holds the passes, and the search for placements behind
// remove_redundant_exchanges(). It may include the rooms `step_graph` and `placed`, and the mesh. Each pass takes a
// graph that check() passes, and returns one. The result is equal on all ranks if the graph is.

#include <cstdint>
#include <string>
#include <variant>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Each tensor is sent alone.
struct NoBuckets {};
/// Tensors whose paths are equal except for the last word are sent together: "blocks.3.attention".
struct LayerBuckets {};
/// Tensors whose paths are equal up to the first number are sent together: "blocks.3".
struct BlockBuckets {};
/// As many tensors as fill `bytes` are sent together. A longer tensor is sent alone. The first bucket is smaller, so
/// that the first exchange starts soon. The last bucket is smaller, because nothing hides its exchange.
struct ByteBuckets {
  std::int64_t bytes = 25 << 20;
  std::int64_t first_bytes = 1 << 20;
  std::int64_t last_bytes = 1 << 20;
};
using BucketPolicy = std::variant<NoBuckets, LayerBuckets, BlockBuckets, ByteBuckets>;

/// Joins consecutive exchanges of the same kind, axes and dtypes, unless a node needs the first of them before the last
/// of them can start. Messages stay alone, because their other ends would have to be joined as well.
/// Source: buckets and their defaults as PyTorch DDP; layers and blocks as Lightning Thunder.
SINEW_API StepGraph bucket(StepGraph graph, const BucketPolicy& policy);

/// Starts each exchange as soon as its inputs, and the room that it asks for, are there. Exchanges keep their order.
SINEW_API StepGraph issue_early(StepGraph graph);
/// Waits for each exchange when its tensors are needed, or at the end.
SINEW_API StepGraph wait_late(StepGraph graph);

/// Delays exchanges so that the bytes in flight, or gathered and not freed, stay below `bytes`. An exchange that is
/// needed at once, or that alone is larger than `bytes`, starts when nothing else can be freed.
SINEW_API StepGraph limit_in_flight(StepGraph graph, std::int64_t bytes);

/// Removes the exchanges, waits and frees of these tensors, such as gradients that are only added up (no_sync).
SINEW_API StepGraph drop_sync(StepGraph graph, const std::vector<TensorId>& tensors);

/// Chooses placements in a graph of computes so that its exchanges send the fewest bytes. If several choices send
/// equally many bytes, it takes the one with the fewest exchanges. For example:
///   - A tensor that is gathered and split again stays in parts, if all computes between can work on parts.
///   - A tensor that is exchanged twice is exchanged once.
///   - Tensors that are added up and lack a sum over the ranks are summed once, after the addition.
///   - A tensor that is summed and then split is reduce-scattered.
/// Along each axis a compute may have any placements that its rule allows, and a tensor takes the cheapest way from its
/// maker to its readers. The choice is made for all tensors together, forward and backward.
/// Gates, signals, and the placements of their tensors stay. Ranks that share the work of a compute keep sharing it.
/// Parameters, and other tensors that the engine gives, are sent only if the given graph sends them.
/// The result is used only if check_placements() and same_values() prove it.
/// Errors: InvalidArgument for a graph that check_placements() refuses.
/// Cost:   grows as the graph does: 24 layers, forward and backward, are 2,200 nodes and take a second.
SINEW_API StepGraph remove_redundant_exchanges(StepGraph graph, const Factorisation& mesh);

}  // namespace sinew::parallel
