#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/step_graph/optimizer/repeated.hpp>
#include <sinew/parallel/step_graph/optimizer/tensor_form.hpp>

namespace sinew::parallel {
namespace {

/// Exchanges that the sweeps below may remove.
bool is_in_place(const Node& node) noexcept {
  return node.operands.empty() &&
         (node.kind == NodeKind::AllGather || node.kind == NodeKind::ReduceScatter || node.kind == NodeKind::AllReduce);
}

/// The parts of a tensor that later nodes read.
struct LaterReads {
  AxisBits whole = 0;  // axes along which the tensor must be whole
  bool any = false;

  void all() noexcept { whole = kAllAxes, any = true; }
};

/// For each node and each of its tensors: what the nodes after it read.
std::vector<std::vector<LaterReads>> needs_after(const StepGraph& graph, const AxisSets& axes,
                                                 const std::optional<std::vector<TensorId>>& read_later) {
  std::vector<LaterReads> now(graph.tensors.size());
  if (read_later) {
    for (const TensorId t : *read_later) now[at(t)].all();
  } else {
    for (LaterReads& need : now) need.all();
  }
  std::vector<std::vector<LaterReads>> after(graph.nodes.size());
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const AxisBits along = node.kind == NodeKind::Free ? axes.bits_of(node.axes) : 0;
    for (const TensorId t : node.tensors) {
      LaterReads& need = now[at(t)];
      after[i].push_back(need);
      switch (node.kind) {
        case NodeKind::Gate:
          need.whole |= node.parts ? 0 : kAllAxes;
          need.any = true;
          break;
        case NodeKind::Free: need.whole &= ~along; break;
        case NodeKind::ReduceScatter:
        case NodeKind::AllReduce:
        case NodeKind::AllToAll:
        case NodeKind::Send: need.all(); break;
        case NodeKind::AllGather:  // of two gathers, the first one stays
        case NodeKind::Receive:
        case NodeKind::Signal:
        case NodeKind::Wait:
        case NodeKind::Split:
        case NodeKind::Compute: break;
      }
    }
    for (const TensorId t : node.operands) now[at(t)].all();
  }
  return after;
}

/// One walk over a graph, forward.
class RepeatedSweep {
 public:
  RepeatedSweep(StepGraph& graph, const std::optional<std::vector<TensorId>>& read_later, const ExchangePrices& prices,
                std::vector<ExchangeEntry>& entries)
      : graph_(graph),
        prices_(prices),
        entries_(entries),
        axes_(graph),
        dropped_(graph.nodes.size()),
        states_(graph.tensors.size()) {
    if (axes_.fit()) after_ = needs_after(graph, axes_, read_later);
  }

  /// Returns whether anything was removed.
  bool run() {
    if (!axes_.fit()) return false;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) visit(i);
    if (!changed_) return false;
    erase();
    return true;
  }

 private:
  struct State {
    TensorForm form;
    bool freed = false;
    bool was_gathered_for_nothing = false;  // the last node that named the tensor was such a gather
    std::size_t last = kNone;               // the last node, other than waits, that named the tensor
    // The last Free, the form before it, and how many gates and signals there were until then.
    TensorForm before_free;
    std::size_t free_node = kNone, gates_at_free = kNone;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void visit(std::size_t i) {
    Node& node = graph_.nodes[i];
    if (node.room_of >= 0) states_[at(node.room_of)].gates_at_free = kNone;  // somebody waits for the freed memory
    if (node.kind == NodeKind::Wait) return;
    if (node.kind == NodeKind::Gate || node.kind == NodeKind::Signal) ++gates_;
    if (is_in_place(node) && !joins_earlier(i)) remove_from(i);
    if (node.kind == NodeKind::Free) cut_sum_before(node);
    const AxisBits along = axes_.bits_of(node.axes);
    for (const TensorId t : node.tensors) {
      State& state = states_[at(t)];
      if (dropped_[i].contains(t)) continue;
      const bool for_nothing = std::exchange(state.was_gathered_for_nothing, false);
      if (node.kind == NodeKind::Free && for_nothing && state.form.whole == 0) {
        drop(i, t);
        continue;
      }
      state.last = i;
      if (node.kind == NodeKind::Signal) {
        if (!node.unchanged) state.form = {};
        state.freed = false;
      } else if (node.kind == NodeKind::Free) {
        visit_free(i, t, along);
      } else if (is_exchange(node.kind)) {
        state.freed = false;
        state.gates_at_free = kNone;
        if (node.operands.empty()) {
          state.form.apply(node, along);
        } else {
          state.form = {};
        }
      }
    }
  }

  void visit_free(std::size_t i, TensorId t, AxisBits along) {
    State& state = states_[at(t)];
    if (state.freed) return drop(i, t);  // the gather between two frees is gone
    state.before_free = state.form;
    state.free_node = i;
    state.gates_at_free = gates_;
    state.freed = true;
    state.form.apply(graph_.nodes[i], along);
  }

  /// Removes tensors from an exchange that changes nothing of them.
  void remove_from(std::size_t i) {
    const Node& node = graph_.nodes[i];
    const AxisBits axes = axes_.bits_of(node.axes);
    std::map<std::string_view, std::vector<TensorId>> by_reason;
    for (std::size_t k = 0; k < node.tensors.size(); ++k) {
      const TensorId t = node.tensors[k];
      const std::string_view why = reason(node, axes, t, after_[i][k]);
      if (why.empty()) continue;
      by_reason[why].push_back(t);
      drop(i, t);
    }
    for (auto& [why, tensors] : by_reason) report(node, tensors, why, 1);
  }

  /// Why the exchange changes nothing of the tensor. Empty: it is needed.
  std::string_view reason(const Node& node, AxisBits axes, TensorId t, const LaterReads& need) {
    State& state = states_[at(t)];
    const TensorForm& form = state.form;
    if (node.kind == NodeKind::AllGather) {
      if ((need.whole & axes) == 0) {
        state.was_gathered_for_nothing = true;
        return "no gate reads the whole before it is freed";
      }
      if ((need.whole & axes & ~form.whole) == 0) return "it is whole already, and nothing has changed it since";
      if (state.freed && state.gates_at_free == gates_ && TensorForm::has(state.before_free.whole, axes)) {
        drop(state.free_node, t);
        state.form = state.before_free;
        state.freed = false;
        return "it was freed just before, and the engine does nothing in between";
      }
      return {};
    }
    if (!need.any) return "no node reads the result";
    if (TensorForm::has(form.summed, axes) && (node.parts || TensorForm::has(form.whole, axes)))
      return "it is summed already, and nothing has changed it since";
    return {};
  }

  /// The exchange in place of exactly these tensors along these axes, if no other node has named them since. kNone:
  /// there is none.
  std::size_t exchange_before(const Node& node) const {
    const std::size_t earlier = states_[at(node.tensors.front())].last;
    if (earlier == kNone) return kNone;
    const Node& first = graph_.nodes[earlier];
    const bool alike = is_in_place(first) && first.axes == node.axes && first.tensors == node.tensors &&
                       dropped_[earlier].empty() && !first.parts && !node.parts &&
                       std::ranges::all_of(node.tensors, [&](TensorId t) { return states_[at(t)].last == earlier; });
    return alike ? earlier : kNone;
  }

  /// An exchange and the one right before it may be one: a sum that is then cut, and parts that are then gathered.
  bool joins_earlier(std::size_t i) {
    const Node& node = graph_.nodes[i];
    const std::size_t earlier = exchange_before(node);
    if (earlier == kNone) return false;
    Node& first = graph_.nodes[earlier];
    const AxisBits axes = axes_.bits_of(node.axes);
    const bool cuts = first.kind == NodeKind::AllReduce && node.kind == NodeKind::ReduceScatter,
               gathers =
                   first.kind == NodeKind::ReduceScatter && node.kind == NodeKind::AllGather &&
                   std::ranges::all_of(after_[i], [&](const LaterReads& need) { return (need.whole & axes) != 0; });
    if (cuts) {
      cut(first);
    } else if (gathers) {
      report(first, first.tensors, "its parts are gathered at once", 1);
      report(node, node.tensors, "it gathers the parts of a sum at once", 1);
      first.kind = NodeKind::AllReduce;
      report(first, first.tensors, "it sums and gathers in one exchange", -1);
      for (const TensorId t : node.tensors) states_[at(t)].form.apply(first, axes);
    } else {
      return false;
    }
    for (const TensorId t : node.tensors) drop(i, t);
    return true;
  }

  /// A sum of whole tensors, of which a Free then leaves the parts, becomes a sum of parts.
  void cut_sum_before(const Node& free) {
    const std::size_t earlier = exchange_before(free);
    if (earlier == kNone || graph_.nodes[earlier].kind != NodeKind::AllReduce) return;
    Node& first = graph_.nodes[earlier];
    cut(first);
    report(first, first.tensors, "it takes the place of the all_reduce", -1);
  }

  void cut(Node& sum) {
    report(sum, sum.tensors, "only parts of the sum are read", 1);
    sum.kind = NodeKind::ReduceScatter;
    for (const TensorId t : sum.tensors) states_[at(t)].form.cut(axes_.bits_of(sum.axes));
    changed_ = true;
  }

  void drop(std::size_t node, TensorId t) {
    dropped_[node].insert_or_assign(t, true);
    changed_ = true;
  }

  /// sign: 1 for a removed exchange, -1 for an added one.
  void report(const Node& node, const std::vector<TensorId>& tensors, std::string_view why, int sign) {
    const Node part{.kind = node.kind, .tensors = tensors};
    const std::int64_t bytes = graph_.bytes(part);
    entries_.push_back({.change = sign > 0 ? ExchangeChange::Removed : ExchangeChange::Added,
                        .kind = node.kind,
                        .axes = node.axes,
                        .tensors = tensors,
                        .why = std::string(why),
                        .bytes = prices_.sent(node.kind, node.axes, bytes),
                        .seconds = prices_.seconds ? sign * prices_.seconds(node.kind, node.axes, bytes) : 0});
  }

  void erase() {
    std::map<std::int32_t, const std::map<TensorId, bool>*> of_exchange;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      const std::map<TensorId, bool>* gone = &dropped_[i];
      if (is_exchange(node.kind)) of_exchange[node.exchange] = gone;
      if (node.kind == NodeKind::Wait) gone = of_exchange[node.exchange];
      std::erase_if(node.tensors, [&](TensorId t) { return gone->contains(t); });
    }
    std::erase_if(graph_.nodes, [](const Node& node) {
      return node.tensors.empty() && node.kind != NodeKind::Gate && node.kind != NodeKind::Signal;
    });
  }

  StepGraph& graph_;
  const ExchangePrices& prices_;
  std::vector<ExchangeEntry>& entries_;
  AxisSets axes_;
  std::vector<std::map<TensorId, bool>> dropped_;  // by node: tensors that leave it
  std::vector<State> states_;                      // by tensor
  std::vector<std::vector<LaterReads>> after_;
  std::size_t gates_ = 0;
  bool changed_ = false;
};

}  // namespace

StepGraph without_repeated_exchanges(StepGraph graph, const std::optional<std::vector<TensorId>>& read_later,
                                     const ExchangePrices& prices, std::vector<ExchangeEntry>& entries) {
  while (RepeatedSweep(graph, read_later, prices, entries).run()) {
  }
  return graph;
}

}  // namespace sinew::parallel
