#include <algorithm>
#include <deque>

#include <sinew/parallel/step_graph/held_tensors.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

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
        delayed_.push_back({&node, releases_});
      } else {
        if (node.kind == NodeKind::Wait) start_until(node.exchange);
        result_.push_back(node);
        give_back(i);
      }
      while (!delayed_.empty() && fits(*delayed_.front().node)) start();
    }
    return std::move(result_);
  }

 private:
  struct Delayed {
    const Node* node;
    std::size_t releases;  // releases_ at its place in the given graph
  };

  bool fits(const Node& exchange) const { return held_.bytes() + graph_.bytes(exchange) <= limit_; }

  void give_back(std::size_t node) {
    const std::int64_t before = held_.bytes();
    held_.end(node);
    if (held_.bytes() == before) return;
    ++releases_;
    released_ = graph_.nodes[node].tensors.front();
  }

  void start() {
    const Delayed first = delayed_.front();
    delayed_.pop_front();
    held_.start(*first.node);
    result_.push_back(*first.node);
    // An exchange waits for its own tensors only. To wait for room, it must name a tensor that was released.
    if (releases_ > first.releases) result_.back().room_of = released_;
  }

  /// A node waits for this exchange. So the exchange, and all delayed ones before it, start even without room.
  void start_until(std::int32_t exchange) {
    const auto is_it = [&](const Delayed& d) { return d.node->exchange == exchange; };
    while (std::ranges::any_of(delayed_, is_it)) start();
  }

  const StepGraph& graph_;
  std::int64_t limit_;
  HeldTensors held_;
  std::size_t releases_ = 0;
  TensorId released_ = -1;  // a tensor of the last release
  std::deque<Delayed> delayed_;
  std::vector<Node> result_;
};

}  // namespace

StepGraph limit_in_flight(StepGraph graph, std::int64_t bytes) {
  graph.nodes = Limiter(graph, bytes).run();
  return graph;
}

}  // namespace sinew::parallel
