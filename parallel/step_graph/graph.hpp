#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/placement.hpp>
#include <sinew/parallel/step_graph/rule.hpp>

namespace sinew::parallel {

using TensorId = std::int32_t;

/// A tensor that a step communicates: a parameter or a gradient. A path such as "blocks.3.attention.weight" says what
/// layer and block it belongs to; a gradient has a name of its own.
struct StepTensor {
  std::string name;
  std::string path;
  DType dtype = DType::F32;
  std::int64_t elements = 0;        ///< of the whole tensor
  DType beside = DType::F32;        ///< a gradient's: its parameter's dtype; what travels together lies beside its like
  std::vector<std::int64_t> shape;  ///< of the whole tensor, where computes read or write it
  Placements placements;            ///< how ranks hold it, likewise

  std::int64_t bytes() const noexcept { return elements * static_cast<std::int64_t>(size_of(dtype)); }
};

enum class NodeKind : std::uint8_t {
  Gate,    ///< the engine is about to read `tensors`: it waits here for what was written into them
  Signal,  ///< the engine has written `tensors`, or will not read them any more
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Send,     ///< to `peer`
  Receive,  ///< from `peer`
  Wait,     ///< the exchange of that number is over
  Free,     ///< the whole of `tensors` is not needed any more, only this rank's part, along `axes` where they are named
  Split,    ///< this rank keeps its part of `operands` along `axes`, and nothing is sent
  Compute,  ///< the engine makes `tensors` of `operands` by `rule`
};

SINEW_API std::string_view name_of(NodeKind kind) noexcept;
constexpr bool is_message(NodeKind kind) noexcept { return kind == NodeKind::Send || kind == NodeKind::Receive; }
constexpr bool is_exchange(NodeKind kind) noexcept {
  return kind == NodeKind::AllGather || kind == NodeKind::ReduceScatter || kind == NodeKind::AllReduce ||
         kind == NodeKind::AllToAll || is_message(kind);
}

struct Node {
  NodeKind kind = NodeKind::Gate;
  std::string name;                ///< of gates, signals and computes: what the engine calls it by
  std::vector<TensorId> tensors;   ///< of exchanges: those that travel together; of a Wait those of its exchange
  std::string axes;                ///< of exchanges: the group of the mesh; of a Free: that has a whole between them
  std::int32_t exchange = -1;      ///< of exchanges and waits: which, unique in the graph
  std::int32_t times = 1;          ///< of signals: reports that make it one; a parameter that is used twice has two
  bool parts = false;              ///< of gates and all-reduces: this rank's parts will do, the whole may be freed
  TensorId room_of = -1;           ///< of exchanges: starts when the last node before it that named this tensor is over
  std::vector<TensorId> operands;  ///< what computes, splits, and exchanges that make one tensor of another, read
  ComputeRule rule;                ///< of computes
  std::int32_t peer = -1;          ///< of messages: a rank of the group
  std::int32_t match = 0;          ///< of messages: equal at both ends
};

/// The communication of one training step, in the order in which every rank starts it. The engine's own work shows as
/// gates and signals. What depends on what follows from the tensors: a node comes after all earlier nodes that name one
/// of its tensors, but gates wait for exchanges only, and signals for nothing, as the engine does. An exchange may wait
/// for the room of another tensor, too.
/// A graph of computes says how tensors follow from each other: each is made once, by a signal, a compute, a split or
/// an exchange of another one, in the placement that it has from then on (step_graph/placed_graph.hpp). Such a graph is
/// lowered before it runs.
/// Passes (step_graph/passes.hpp) turn graphs into better ones; StepRunner runs them.
/// Source: traces and their passes as in Lightning Thunder's distributed transforms.
struct StepGraph {
  std::vector<StepTensor> tensors;
  std::vector<Node> nodes;

  /// Bytes that an exchange moves or a Free gives back: of the whole tensors.
  SINEW_API std::int64_t bytes(const Node& node) const noexcept;
  /// One past the highest number of an exchange.
  SINEW_API std::int32_t next_exchange() const noexcept;
  /// A line per node: "all_reduce 3 over dp: w2.grad, w1.grad (12 KiB)".
  SINEW_API std::string to_string() const;
};

/// For every node the earlier nodes that must be over before it, ascending, without those that follow from others.
SINEW_API std::vector<std::vector<std::int32_t>> needs_of(const StepGraph& graph);

/// Proves that a graph can run: every exchange is waited for once, after it; no gate reads a tensor that is under way
/// or freed, and no exchange starts one; numbers of tensors and exchanges exist.
/// Returns what is wrong with the first bad node, naming it; empty: nothing.
SINEW_API std::string check(const StepGraph& graph);

/// What a graph promises: figures that tests and users judge it by.
struct StepFigures {
  std::int32_t exchanges = 0;
  std::int64_t bytes = 0;            ///< moved by all exchanges together, whole tensors
  std::int64_t bytes_in_flight = 0;  ///< the most between start and Free, or Wait where nothing frees them
  std::int32_t exposed =
      0;  ///< exchanges with no signal of the engine before the next gate that needs them, or the end
};
SINEW_API StepFigures figures_of(const StepGraph& graph);

}  // namespace sinew::parallel
