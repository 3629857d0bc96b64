#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/copies.hpp>
#include <sinew/parallel/data_parallel/row.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/passes.hpp>

namespace sinew::parallel {

/// What data parallelism is told about a parameter. `path` ("blocks.3.attention.weight") names it and says which layer
/// and block it belongs to.
struct DataParameter {
  std::string path;
  DType dtype = DType::F32;
  std::int64_t elements = 0;
  std::string unit;       ///< what the engine runs as one: a block. Its parameters are gathered and freed together
  std::int32_t uses = 1;  ///< how often a backward pass reports its gradient
  /// Its gradient is held, added up and summed over ranks in this: f32 for parameters of 16 bits. {}: the parameter's.
  std::optional<DType> gradient{};

  DType gradient_dtype() const noexcept { return gradient.value_or(dtype); }
};

/// What becomes of parameters that were gathered for a unit's forward pass, until its backward pass. The last unit's
/// stay either way, as its backward pass comes next.
/// Source: reshard_after_forward of PyTorch's FSDP2.
enum class Reshard : std::uint8_t {
  AfterForward,   ///< freed, and gathered again
  AfterBackward,  ///< kept: gathered once in a step, but all are there at its middle
};

struct DataOptions {
  BucketPolicy buckets = ByteBuckets{};
  Reshard reshard = Reshard::AfterForward;
  /// Of the axes that shard ("near" of "near-far"): ranks along these keep the freed parameters between them until the
  /// backward pass, so that what is gathered again comes from near. {}: each rank keeps its shard alone.
  std::string reshard_axes;
  /// The unit, if any, whose passes begin before those of all others and end after them: what the first and the last
  /// layer share, such as tied embeddings. Where parameters are sharded it stays gathered from the one to the other.
  /// Source: the root module of PyTorch's FSDP.
  std::string outer_unit;
  /// Of sharded parameters that are gathered, this unit's and those fetched ahead, and of gradients before they are
  /// scattered. 0: room for the two largest units that follow each other, and for their gradients. The outer unit comes
  /// on top, and with Reshard::AfterBackward all parameters do.
  std::int64_t gathered_bytes = 0;
  /// Of an engine that computes on a device (DataParallelOptions::device).
  Offload offload = Offload::Nothing;
};

/// A step of a row: its graph, and which tensors lie side by side in memory.
/// Tensor i of the graph is the whole of parameter i, tensor n + i its gradient, of n parameters.
/// Gates of the engine: "forward UNIT" and "backward UNIT" before each, "optimizer" before the update; signals:
/// "forward done UNIT", "backward done UNIT", "gradient PATH", "updated".
struct StepPlan {
  StepGraph graph;
  /// Parameters that travel together, in the order in which they lie; each in exactly one group.
  std::vector<std::vector<std::int32_t>> groups;
};

/// Units in the order in which their first parameter comes; the backward pass goes the other way. The outer unit is
/// around all others in both.
/// `ready`: the parameters in the order in which their gradients come, {}: last first. With sharded parameters each
/// unit is a bucket, whatever the policy.
/// Errors: InvalidArgument that lists everything that is wrong: rules of the row, a path that is empty or there twice,
///         no elements, no unit, an outer unit that there is not, gradients of another dtype than their parameter's
///         that are not f32 of 16 bits, `ready` that is no order of all.
SINEW_API StepPlan plan_step(const std::vector<DataParameter>& parameters, const DataRow& row,
                             const DataOptions& options = {}, const std::vector<std::int32_t>& ready = {});

}  // namespace sinew::parallel
