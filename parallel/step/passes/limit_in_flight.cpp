#include <algorithm>
#include <deque>

#include <sinew/parallel/step/passes.hpp>

namespace sinew::parallel {
namespace {

/// Walks the graph and holds exchanges back while there is no room.
class Limiter {
 public:
  Limiter(const StepGraph& graph, std::int64_t limit)
      : graph_(graph), limit_(limit), held_(graph.tensors.size(), false), freed_(free_follows()) {}

  std::vector<Node> run() && {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (is_exchange(node.kind)) {
        delayed_.push_back(&node);
      } else {
        if (node.kind == NodeKind::Wait) start_until(node.exchange);
        result_.push_back(node);
        if (node.kind == NodeKind::Free || (node.kind == NodeKind::Wait && !freed_[i])) {
          for (const TensorId t : node.tensors) hold(t, false);
        }
      }
      while (!delayed_.empty() && fits(*delayed_.front())) start();
    }
    return std::move(result_);
  }

 private:
  /// By wait: whether its tensors stay until something frees them.
  std::vector<bool> free_follows() const {
    std::vector<bool> follows(graph_.nodes.size(), false);
    std::vector<bool> next(graph_.tensors.size(), false);  // the next free or exchange of the tensor is a free
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      for (const TensorId t : node.tensors) {
        const auto k = static_cast<std::size_t>(t);
        if (node.kind == NodeKind::Wait && next[k]) follows[i] = true;
        if (node.kind == NodeKind::Free || is_exchange(node.kind)) next[k] = node.kind == NodeKind::Free;
      }
    }
    return follows;
  }

  void hold(TensorId t, bool yes) {
    const auto i = static_cast<std::size_t>(t);
    if (held_[i] == yes) return;
    held_[i] = yes;
    now_ += yes ? graph_.tensors[i].bytes() : -graph_.tensors[i].bytes();
  }

  bool fits(const Node& exchange) const { return now_ + graph_.bytes(exchange) <= limit_; }

  void start() {
    for (const TensorId t : delayed_.front()->tensors) hold(t, true);
    result_.push_back(*delayed_.front());
    delayed_.pop_front();
  }

  /// Somebody waits for it now: it starts, room or not, and with it those that come before it.
  void start_until(std::int32_t exchange) {
    const auto is_it = [&](const Node* n) { return n->exchange == exchange; };
    while (std::ranges::any_of(delayed_, is_it)) start();
  }

  const StepGraph& graph_;
  std::int64_t limit_, now_ = 0;
  std::vector<bool> held_, freed_;
  std::deque<const Node*> delayed_;
  std::vector<Node> result_;
};

}  // namespace

StepGraph limit_in_flight(StepGraph graph, std::int64_t bytes) {
  graph.nodes = Limiter(graph, bytes).run();
  return graph;
}

}  // namespace sinew::parallel
