#include "planted.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>

namespace sinew::parallel::test {
namespace {

std::size_t place_in_vector(std::int64_t t) noexcept { return static_cast<std::size_t>(t); }

/// The kind of the node that brings a tensor from one placement to another. nullopt: there is none.
std::optional<NodeKind> kind_between(const Placement& from, const Placement& to) {
  const bool was_whole = std::holds_alternative<Replicate>(from), was_sum = std::holds_alternative<Partial>(from),
             is_whole = std::holds_alternative<Replicate>(to), is_sum = std::holds_alternative<Partial>(to);
  if (from == to || is_sum) return std::nullopt;
  if (was_whole) return NodeKind::Split;
  if (was_sum) return is_whole ? NodeKind::AllReduce : NodeKind::ReduceScatter;
  return is_whole ? NodeKind::AllGather : NodeKind::AllToAll;
}

class ComputePlanter {
 public:
  ComputePlanter(const StepGraph& graph, const Factorisation& mesh, unsigned seed)
      : planted_{graph}, mesh_(mesh), random_(seed) {}

  Planted run(int count) && {
    while (planted_.exchanges < count) {
      const Planted before = planted_;
      switch (draw(3)) {
        case 0: exchange_twice(); break;
        case 1: go_and_return(); break;
        default: exchange_for_nobody();
      }
      if (!check_placements(planted_.graph, mesh_).empty()) planted_ = before;  // no such exchange here
    }
    return std::move(planted_);
  }

 private:
  StepGraph& graph() noexcept { return planted_.graph; }
  int draw(std::size_t below) { return static_cast<int>(random_() % below); }
  const StepTensor& tensor(TensorId t) { return graph().tensors[place_in_vector(t)]; }
  bool is_parameter(TensorId t) {
    const std::string& name = tensor(t).name;
    return name.ends_with(".weight") || name.ends_with(".gain");
  }

  TensorId copy_of(TensorId t, const std::string& axis, const Placement& placement) {
    StepTensor copy = tensor(t);
    copy.name += fmt::format(" planted {}", graph().tensors.size());
    copy.placements = copy.placements.with(axis, placement);
    graph().tensors.push_back(std::move(copy));
    return static_cast<TensorId>(graph().tensors.size() - 1);
  }
  /// Adds the move before `place`. Returns the tensor that it makes, or nullopt if there is no such move.
  std::optional<TensorId> add(std::size_t place, TensorId from, const std::string& axis, const Placement& to) {
    const auto kind = kind_between(tensor(from).placements.along(axis), to);
    if (!kind) return std::nullopt;
    const TensorId made = copy_of(from, axis, to);
    Node node{.kind = *kind, .tensors = {made}, .axes = axis, .operands = {from}};
    if (*kind == NodeKind::Split) node.name = fmt::format("planted split {}", made);
    if (is_exchange(*kind)) {
      node.exchange = graph().next_exchange();
      ++planted_.exchanges;
    }
    graph().nodes.insert(graph().nodes.begin() + static_cast<std::ptrdiff_t>(place), std::move(node));
    return made;
  }

  /// A node with a tensor that it reads: an operand, or a tensor of a gate.
  TensorId* any_reader(std::size_t& place) {
    for (;;) {
      place = place_in_vector(draw(graph().nodes.size()));
      Node& node = graph().nodes[place];
      std::vector<TensorId>& read = node.kind == NodeKind::Gate ? node.tensors : node.operands;
      if (read.empty()) continue;
      TensorId& t = read[place_in_vector(draw(read.size()))];
      if (!is_parameter(t)) return &t;
    }
  }
  const std::string& any_axis() { return mesh_.axes()[place_in_vector(draw(mesh_.axes().size()))].name; }
  Placement any_placement(TensorId t) {
    const int dim = draw(tensor(t).shape.size() + 1);
    return dim == 0 ? Placement(Replicate{}) : Shard{dim - 1, {}};
  }

  void exchange_twice() {
    std::size_t place = 0;
    const TensorId read = *any_reader(place);
    const auto maker = std::ranges::find_if(
        graph().nodes, [&](const Node& n) { return is_exchange(n.kind) && std::ranges::count(n.tensors, read) > 0; });
    if (maker == graph().nodes.end()) return;
    const Node first = *maker;
    const auto made = add(place, first.operands.front(), first.axes, tensor(read).placements.along(first.axes));
    if (made) replace(place + 1, read, *made);
  }
  void go_and_return() {
    std::size_t place = 0;
    const TensorId read = *any_reader(place);
    const std::string axis = any_axis();
    const Placement was = tensor(read).placements.along(axis);
    const auto there = add(place, read, axis, any_placement(read));
    if (!there) return;
    const auto back = add(place + 1, *there, axis, was);
    if (back) replace(place + 2, read, *back);
  }
  void exchange_for_nobody() {
    std::size_t place = 0;
    const TensorId read = *any_reader(place);
    (void)add(place, read, any_axis(), any_placement(read));
  }
  void replace(std::size_t node, TensorId was, TensorId is) {
    Node& n = graph().nodes[node];
    for (auto* tensors : {&n.tensors, &n.operands}) {
      if (n.kind == NodeKind::Gate || tensors == &n.operands) std::ranges::replace(*tensors, was, is);
    }
  }

  Planted planted_;
  const Factorisation& mesh_;
  std::mt19937 random_;
};

class InPlacePlanter {
 public:
  InPlacePlanter(const StepGraph& graph, unsigned seed) : planted_{graph}, random_(seed) {}

  Planted run(int count) && {
    while (planted_.exchanges < count) {
      const Planted before = planted_;
      const std::size_t place = random_() % planted_.graph.nodes.size();
      switch (random_() % 5) {
        case 0: again_after(place); break;
        case 1: free_and_gather_after(place); break;
        case 2: gather_for_nothing_after(place); break;
        case 3: sum_that_nobody_reads(place); break;
        default: sum_in_two(place);
      }
      if (!check(planted_.graph).empty()) planted_ = before;
    }
    return std::move(planted_);
  }

 private:
  std::vector<Node>& nodes() noexcept { return planted_.graph.nodes; }
  /// The exchange of a Wait. nullopt: the node is no Wait.
  std::optional<Node> exchange_of(std::size_t wait) {
    const Node node = nodes()[wait];
    if (node.kind != NodeKind::Wait) return std::nullopt;
    return *std::ranges::find_if(nodes(),
                                 [&](const Node& n) { return is_exchange(n.kind) && n.exchange == node.exchange; });
  }
  void insert(std::size_t place, Node node) {
    nodes().insert(nodes().begin() + static_cast<std::ptrdiff_t>(place), std::move(node));
  }
  void insert_exchange(std::size_t place, Node exchange) {
    exchange.exchange = planted_.graph.next_exchange();
    exchange.room_of = -1;
    const Node wait{.kind = NodeKind::Wait, .tensors = exchange.tensors, .exchange = exchange.exchange};
    insert(place, std::move(exchange));
    insert(place + 1, wait);
    ++planted_.exchanges;
  }

  void again_after(std::size_t place) {
    const auto exchange = exchange_of(place);
    // After a reduce_scatter the other parts are no numbers any more, so it cannot be made again.
    if (exchange && (exchange->kind == NodeKind::AllGather || exchange->kind == NodeKind::AllReduce))
      insert_exchange(place + 1, *exchange);
  }
  void free_and_gather_after(std::size_t place) {
    const auto exchange = exchange_of(place);
    if (!exchange || exchange->kind != NodeKind::AllGather) return;
    insert_exchange(place + 1, *exchange);
    insert(place + 1, {.kind = NodeKind::Free, .tensors = exchange->tensors, .axes = exchange->axes});
  }
  void gather_for_nothing_after(std::size_t place) {
    const Node free = nodes()[place];
    if (free.kind != NodeKind::Free) return;
    const auto gather = std::ranges::find_if(nodes(), [&](const Node& n) {
      return n.kind == NodeKind::AllGather && std::ranges::is_permutation(n.tensors, free.tensors);
    });
    if (gather == nodes().end()) return;
    const Node exchange = *gather;
    insert(place + 1, free);
    insert_exchange(place + 1, exchange);
  }
  void sum_that_nobody_reads(std::size_t place) {
    const Node gate = nodes()[place];
    if (gate.kind != NodeKind::Gate || gate.name != "optimizer") return;
    const auto sum = std::ranges::find(nodes(), NodeKind::AllReduce, &Node::kind);
    if (sum != nodes().end()) insert_exchange(place + 1, Node(*sum));
  }
  /// A reduce_scatter after an all_reduce, or an all_gather after a reduce_scatter.
  void sum_in_two(std::size_t place) {
    Node& exchange = nodes()[place];
    Node first = exchange;
    if (exchange.kind == NodeKind::ReduceScatter) {
      first.kind = NodeKind::AllReduce;
    } else if (exchange.kind == NodeKind::AllReduce && !exchange.parts) {
      first.kind = NodeKind::ReduceScatter;
      exchange.kind = NodeKind::AllGather;
    } else {
      return;
    }
    insert_exchange(place, first);
  }

  Planted planted_;
  std::mt19937 random_;
};

}  // namespace

Planted planted_in_computes(const StepGraph& graph, const Factorisation& mesh, unsigned seed, int count) {
  return ComputePlanter(graph, mesh, seed).run(count);
}

Planted planted_in_place(const StepGraph& graph, unsigned seed, int count) {
  return InPlacePlanter(graph, seed).run(count);
}

}  // namespace sinew::parallel::test
