#pragma once

// The communication of a training step as a graph. The room holds the graph, its proof, its runner, and the order of
// the calls of a step. It may include placements and the room `common`. Its sub-rooms `placed` and `passes` include it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

using TensorId = std::int32_t;

/// A tensor that a step communicates: a parameter or a gradient. A path such as "blocks.3.attention.weight" says to
/// which layer and block it belongs. A gradient has a name of its own.
struct StepTensor {
  std::string name{};
  std::string path{};
  DType dtype = DType::F32;
  std::int64_t elements = 0;  ///< of the whole tensor
  /// For a gradient, the dtype of its parameter. Tensors that are sent together lie beside each other only if they
  /// agree in it.
  DType beside = DType::F32;
  /// The shape of the whole tensor, if computes read or write it.
  std::vector<std::int64_t> shape{};
  /// The placements in which ranks hold the tensor, if computes read or write it.
  Placements placements{};

  std::int64_t bytes() const noexcept { return elements * static_cast<std::int64_t>(size_of(dtype)); }
};

/// The kinds of nodes of a graph.
enum class NodeKind : std::uint8_t {
  Gate,    ///< the engine is about to read `tensors`; it waits here for whatever writes them
  Signal,  ///< the engine has written `tensors`, or will not read them any more
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Send,     ///< to `peer`
  Receive,  ///< from `peer`
  Wait,     ///< waits for the end of the exchange of that number
  /// The whole `tensors` are not needed any more. This rank keeps its part of them along `axes`, or, without `axes`,
  /// its shard.
  Free,
  /// This rank keeps its part of `operands` along `axes`. Nothing is sent.
  Split,
  Compute,  ///< the engine makes `tensors` of `operands`, as `rule` says
};

SINEW_API std::string_view name_of(NodeKind kind) noexcept;
constexpr bool is_message(NodeKind kind) noexcept { return kind == NodeKind::Send || kind == NodeKind::Receive; }
constexpr bool is_exchange(NodeKind kind) noexcept {
  return kind == NodeKind::AllGather || kind == NodeKind::ReduceScatter || kind == NodeKind::AllReduce ||
         kind == NodeKind::AllToAll || is_message(kind);
}

/// The effect of a compute on dimensions. Each dimension has a letter as its label.
///     ri,oi->ro      a linear layer of x [r, i] and weight [o, i]: labels that the result lacks are summed over
///     ro+ro->ro      the sum of operands, all of which may be Partial together
///     ro,o->ro,r     two results
///     r(hd)->rhd     a dimension of two labels, the outer one first: columns as heads. Only the outer one can be cut
/// Along a label that `whole` does not name, the compute treats each place by itself, except for sums. So ranks may
/// share the work along this label.
struct ComputeRule {
  std::string labels{};
  std::string function{};             ///< what the engine does besides products and sums; empty: nothing
  std::string whole{};                ///< labels that must not be cut: "o" of a norm over a row
  std::vector<std::size_t> linear{};  ///< operands in each of which the compute is linear; one of them may be Partial
  /// Extents of labels that do not follow from shapes.
  std::vector<std::pair<char, std::int64_t>> extents{};
  /// The operator by which the compute combines the places of labels that its results lack: Sum, Max or Min. Partial
  /// operands and results are of this operator.
  ReduceOp combines = ReduceOp::Sum;
};

/// One node of a graph.
struct Node {
  NodeKind kind = NodeKind::Gate;
  /// For gates, signals and computes: the name that the engine uses.
  std::string name{};
  /// For exchanges: the tensors that are sent together. For a Wait: those of its exchange.
  std::vector<TensorId> tensors{};
  /// For exchanges: the group of the mesh. For a Free: the ranks that keep a whole between them.
  std::string axes{};
  /// For exchanges and waits: the number of the exchange, unique in the graph.
  std::int32_t exchange = -1;
  /// For signals: how many reports make the signal. A parameter that is used twice has two.
  std::int32_t times = 1;
  /// For gates and all-reduces: this rank's parts are enough, and the whole may be freed.
  bool parts = false;
  /// For reduce-scatters: the result is added to this rank's parts, by the next Free of the tensors.
  bool adds = false;
  /// For exchanges: the tensor for whose memory the exchange waits. The exchange starts when the last earlier exchange,
  /// wait or free of this tensor has ended.
  TensorId room_of = -1;
  /// The tensors that the node reads, for computes, for splits, and for exchanges that make tensors from others. Such
  /// an exchange makes each of its tensors from the operand at the same place.
  std::vector<TensorId> operands{};
  ComputeRule rule{};      ///< of computes
  std::int32_t peer = -1;  ///< of messages: a rank of the group
  std::int32_t match = 0;  ///< of messages: equal at both ends
  /// For signals: the engine has only read the tensors. Their values are as before.
  bool unchanged = false;
};

/// The communication of one training step, in the order in which every rank starts it. The engine's own work appears as
/// gates and signals.
/// Dependencies follow from the tensors. A node comes after all earlier nodes that name one of its tensors. Gates are
/// an exception: they wait for exchanges only. Signals wait for nothing, because the engine does not wait. An exchange
/// may also wait for the room of another tensor.
/// A graph of computes also says how tensors follow from each other. Each tensor is made once: by a signal, a compute,
/// a split, or an exchange of another tensor. It keeps the placement in which it was made. check_placements() proves
/// this (step_graph/placed/check_placements.hpp). lower() makes such a graph one that can run
/// (step_graph/placed/lower.hpp).
/// Passes (step_graph/passes/passes.hpp) turn graphs into better ones. StepRunner runs graphs.
/// Source: traces and their passes as in Lightning Thunder's distributed transforms.
struct StepGraph {
  std::vector<StepTensor> tensors{};
  std::vector<Node> nodes{};

  /// Bytes of the whole tensors that an exchange moves or a Free gives back.
  SINEW_API std::int64_t bytes(const Node& node) const noexcept;
  /// One more than the highest number of an exchange.
  SINEW_API std::int32_t next_exchange() const noexcept;
  /// A line for each node: "all_reduce 3 over dp: w2.grad, w1.grad (12 KiB)".
  SINEW_API std::string to_string() const;
};

/// For each node, the earlier nodes that must have ended before it, ascending. Only direct dependencies are listed.
SINEW_API std::vector<std::vector<std::int32_t>> needs_of(const StepGraph& graph);

}  // namespace sinew::parallel
