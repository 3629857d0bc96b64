#pragma once

// The options of data parallelism. The room `plan` turns parameters, options and a row into the graph of a step. It may
// include the mesh and the step graph with its passes, and nothing that holds memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/parallel/data_parallel/plan/gradient_wire.hpp>
#include <sinew/parallel/data_parallel/plan/unit_order.hpp>
#include <sinew/parallel/data_parallel/plan/weight_wire.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

namespace sinew::parallel {

/// Selects the memory of a strategy that is elsewhere than the engine's memory: on the host when the engine computes on
/// a device, or on a disk (DataParallelOptions::shards).
/// Source: ZeRO-Offload (arXiv 2101.06840), ZeRO-Infinity (arXiv 2104.07857); offload_policy of PyTorch's FSDP2.
enum class Offload : std::uint8_t {
  Nothing,  ///< parameters, gradients and the optimizer's state are on the device where the engine computes
  ParametersAndOptimizer,  ///< shards and the optimizer's state are there; gathered parameters are with the engine
};

/// Decides what happens to the parameters of a unit between its forward and its backward pass. The last unit keeps its
/// parameters in both cases, because its backward pass comes next.
/// Source: reshard_after_forward of PyTorch's FSDP2.
enum class Reshard : std::uint8_t {
  AfterForward,   ///< they are freed, and gathered again
  AfterBackward,  ///< they are kept: each is gathered once in a step, and in the middle of the step all are there
};

/// Options that change the graph of a step.
struct DataOptions {
  BucketPolicy buckets = ByteBuckets{};
  Reshard reshard = Reshard::AfterForward;
  /// Some of the axes that shard, such as "near" of "near-far". The ranks along these axes keep the freed parameters
  /// between them until the backward pass, so that the second gather sends over near links only. {}: each rank keeps
  /// its shard only. The second gather sends the parameters as they are held, which WeightWire::Int8 has rounded.
  /// Source: hpZ of ZeRO++ (Wang et al., arXiv 2306.10209).
  std::string reshard_axes{};
  /// Some of the axes that shard, such as "near" of "near-far". Gradients of GradientWire::int4 are summed along these
  /// axes first, and then along the others. So far links carry each gradient once for all ranks along near links. {}:
  /// they are summed along all axes at once. The mesh has a group for these axes, and one for the others together.
  std::string scatter_axes{};
  /// A unit whose passes begin before those of all other units and end after them. It holds what the first and the last
  /// layer share, such as tied embeddings. Where parameters are sharded, this unit stays gathered from its first use to
  /// its last. {}: there is none.
  /// Source: the root module of PyTorch's FSDP.
  std::string outer_unit{};
  /// The memory for gathered parameters, and for gradients that wait to be scattered. It counts the running unit and
  /// the units that are gathered ahead of it. 0: room for the largest two units that follow each other, and for their
  /// gradients. The outer unit comes on top. With Reshard::AfterBackward all parameters come on top. So do the codes of
  /// int4 gradients.
  /// Units: bytes
  std::int64_t gathered_bytes = 0;
  /// For the stages of a pipeline: the actions of this rank on its units, if a schedule decides them. The options above
  /// then keep their defaults, and each unit is a bucket.
  UnitOrder order{};
  /// See DataParallelOptions::device and DataParallelOptions::shards.
  Offload offload = Offload::Nothing;
};

/// All options of DataParallel.
struct DataParallelOptions {
  DataOptions step{};
  ReduceOp gradients = ReduceOp::Average;  ///< Average or Sum
  Determinism determinism = Determinism::Fast;
  GradientWire wire{};                     ///< how gradients are encoded while they are sent
  WeightWire weights = WeightWire::Plain;  ///< how sharded parameters are encoded while they are gathered
  /// true: at the end of a backward pass, a parameter whose gradient was not reported counts as reported. Its gradient
  /// keeps the value that it has, which is zero after updated(). false: such a parameter is an error.
  bool unused_are_zero = false;
  /// After the first step, buckets follow the order in which rank 0 reported its gradients. Only for rows that shard
  /// nothing.
  bool rebuild_buckets = true;
  /// The device of the engine. parameter(p) and gradient(p) are then in its memory, and so are the optimizer's state
  /// and each OwnedPart; `allocate` is not called. With DataOptions::offload state and parts are in host memory, which
  /// `allocate` gives. Calls rarely wait for the device: their results may be used by work of its stream only.
  ComputeDevice device{};
  /// For DataOptions::offload: gives zeroed memory for shards of parameters and gradients, and for the optimizer's
  /// state, such as a FileMemory. Null: `allocate` gives it. An engine that computes on the host needs it.
  std::function<Memory(std::size_t bytes)> shards{};
};

}  // namespace sinew::parallel
