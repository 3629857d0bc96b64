#include <algorithm>
#include <deque>

#include <sinew/parallel/step/held_tensors.hpp>
#include <sinew/parallel/step/passes.hpp>

namespace sinew::parallel {
namespace {

/// Walks the graph and holds exchanges back while there is no room.
class Limiter {
 public:
  Limiter(const StepGraph& graph, std::int64_t limit) : graph_(graph), limit_(limit), held_(graph) {}

  std::vector<Node> run() && {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (is_exchange(node.kind)) {
        delayed_.push_back(&node);
      } else {
        if (node.kind == NodeKind::Wait) start_until(node.exchange);
        result_.push_back(node);
        held_.end(i);
      }
      while (!delayed_.empty() && fits(*delayed_.front())) start();
    }
    return std::move(result_);
  }

 private:
  bool fits(const Node& exchange) const { return held_.bytes() + graph_.bytes(exchange) <= limit_; }

  void start() {
    held_.start(*delayed_.front());
    result_.push_back(*delayed_.front());
    delayed_.pop_front();
  }

  /// Somebody waits for it now: it starts, room or not, and with it those that come before it.
  void start_until(std::int32_t exchange) {
    const auto is_it = [&](const Node* n) { return n->exchange == exchange; };
    while (std::ranges::any_of(delayed_, is_it)) start();
  }

  const StepGraph& graph_;
  std::int64_t limit_;
  HeldTensors held_;
  std::deque<const Node*> delayed_;
  std::vector<Node> result_;
};

}  // namespace

StepGraph limit_in_flight(StepGraph graph, std::int64_t bytes) {
  graph.nodes = Limiter(graph, bytes).run();
  return graph;
}

}  // namespace sinew::parallel
