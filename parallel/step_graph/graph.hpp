#pragma once

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

/// What a compute does to dimensions, each of which has a letter as its label.
///     ri,oi->ro      a linear layer of x [r, i] and weight [o, i]: labels that a result lacks are summed over
///     ro+ro->ro      the sum of operands, which may be Partial all together
///     ro,o->ro,r     two results
///     r(hd)->rhd     a dimension of two labels, the outer one first: columns as heads. Only the outer one can be cut
/// Along a label that `whole` does not name the compute treats each place alone, but for the sum: ranks may share it.
struct ComputeRule {
  std::string labels;
  std::string function;             ///< what the engine does beyond products and sums; empty: nothing
  std::string whole;                ///< labels that must not be cut: "o" of a norm over a row
  std::vector<std::size_t> linear;  ///< operands in each of which it is linear: one of them may be Partial
  std::vector<std::pair<char, std::int64_t>> extents;  ///< of labels that shapes alone do not tell
};

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

}  // namespace sinew::parallel
