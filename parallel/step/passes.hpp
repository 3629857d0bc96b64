#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <sinew/core/export.hpp>
#include <sinew/parallel/step/graph.hpp>

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

}  // namespace sinew::parallel
