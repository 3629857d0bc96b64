#include <algorithm>

#include <fmt/format.h>

#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {
namespace {

enum class TensorState : std::uint8_t { Here, Freed, Underway, PartsUnderway };

bool is_underway(TensorState s) noexcept { return s >= TensorState::Underway; }

class Checker {
 public:
  explicit Checker(const StepGraph& graph)
      : graph_(graph), states_(graph.tensors.size(), TensorState::Here), exchanges_(count(), nullptr) {}

  std::string run() {
    for (const Node& node : graph_.nodes) {
      std::string wrong = look_at(node);
      if (!wrong.empty()) return wrong;
    }
    for (const Node* exchange : exchanges_) {
      if (exchange != nullptr) return fmt::format("{}: nothing waits for it", text(*exchange));
    }
    return {};
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(graph_.next_exchange()); }
  static std::string text(const Node& node) {
    return is_exchange(node.kind) || node.kind == NodeKind::Wait
               ? fmt::format("{} {}", name_of(node.kind), node.exchange)
               : fmt::format("{} {}", name_of(node.kind), node.name);
  }
  std::string about(const Node& node, TensorId t, std::string_view what) const {
    return fmt::format("{}: '{}' {}", text(node), graph_.tensors[static_cast<std::size_t>(t)].name, what);
  }

  std::string look_at(const Node& node) {
    for (const auto* tensors : {&node.tensors, &node.operands}) {
      for (const TensorId t : *tensors) {
        if (t < 0 || static_cast<std::size_t>(t) >= graph_.tensors.size())
          return fmt::format("{}: there is no tensor {}, only {}", text(node), t, graph_.tensors.size());
      }
    }
    if (node.kind == NodeKind::Compute || node.kind == NodeKind::Split)
      return fmt::format("{}: nothing runs it; expected a graph that is lowered", text(node));
    if (node.room_of >= static_cast<TensorId>(graph_.tensors.size()))
      return fmt::format("{}: there is no tensor {} whose room it could have", text(node), node.room_of);
    if (is_exchange(node.kind)) return start(node);
    if (node.kind == NodeKind::Wait) return end(node);
    for (const TensorId t : node.tensors) {
      TensorState& state = states_[static_cast<std::size_t>(t)];
      if (is_underway(state)) return about(node, t, "is under way");
      if (node.kind == NodeKind::Gate && state == TensorState::Freed && !node.parts) return about(node, t, "was freed");
      if (node.kind == NodeKind::Free && state == TensorState::Freed) return about(node, t, "was freed before");
      if (node.kind == NodeKind::Free) state = TensorState::Freed;
      if (node.kind == NodeKind::Signal) state = TensorState::Here;
    }
    if (node.kind == NodeKind::Signal && node.times < 1)
      return fmt::format("{}: reported {} times", text(node), node.times);
    return {};
  }

  std::string start(const Node& node) {
    if (node.tensors.empty()) return fmt::format("{}: moves no tensor", text(node));
    if (node.axes.empty()) return fmt::format("{}: over no axis", text(node));
    if (node.exchange < 0) return fmt::format("{}: has no number", text(node));
    if (!node.operands.empty() && node.operands.size() != node.tensors.size())
      return fmt::format("{}: makes {} tensors of {}, expected one of each", text(node), node.tensors.size(),
                         node.operands.size());
    const Node*& known = exchanges_[static_cast<std::size_t>(node.exchange)];
    if (known != nullptr)
      return fmt::format("{}: its number is that of a {} under way", text(node), name_of(known->kind));
    known = &node;
    for (const TensorId t : node.operands) {
      const TensorState state = states_[static_cast<std::size_t>(t)];
      if (is_underway(state)) return about(node, t, "is under way");
      if (state == TensorState::Freed) return about(node, t, "was freed");
    }
    const DType dtype = graph_.tensors[static_cast<std::size_t>(node.tensors.front())].dtype;
    for (const TensorId t : node.tensors) {
      TensorState& state = states_[static_cast<std::size_t>(t)];
      if (is_underway(state)) return about(node, t, "is under way");
      const bool whole = node.kind != NodeKind::AllGather && !node.parts;
      if (state == TensorState::Freed && whole) return about(node, t, "was freed");
      if (graph_.tensors[static_cast<std::size_t>(t)].dtype != dtype) return about(node, t, "is of another dtype");
      state = state == TensorState::Freed && node.parts ? TensorState::PartsUnderway : TensorState::Underway;
    }
    return {};
  }

  std::string end(const Node& node) {
    const auto e = static_cast<std::size_t>(node.exchange);
    if (node.exchange < 0 || e >= exchanges_.size() || exchanges_[e] == nullptr)
      return fmt::format("{}: no such exchange is under way", text(node));
    if (!std::ranges::equal(node.tensors, exchanges_[e]->tensors))
      return fmt::format("{}: its tensors are not those of the exchange", text(node));
    for (const TensorId t : node.tensors) {
      TensorState& state = states_[static_cast<std::size_t>(t)];
      state = state == TensorState::PartsUnderway ? TensorState::Freed : TensorState::Here;
    }
    exchanges_[e] = nullptr;
    return {};
  }

  const StepGraph& graph_;
  std::vector<TensorState> states_;
  std::vector<const Node*> exchanges_;  // in flight, by number
};

}  // namespace

std::string check(const StepGraph& graph) { return Checker(graph).run(); }

}  // namespace sinew::parallel
