#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Builds a graph's nodes anew with some of them moved. A node moves to the front of a node that stays, or to the end.
/// Other nodes keep their order. Nodes that move to the same place have the order in which they were moved.
class Rebuilt {
 public:
  explicit Rebuilt(std::vector<Node> nodes)
      : nodes_(std::move(nodes)), leaves_(nodes_.size()), before_(nodes_.size() + 1) {}

  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  void drop(std::size_t node) { leaves_[node] = true; }
  /// `place`: an index of nodes(), or nodes().size().
  void put(Node node, std::size_t place) { before_[place].push_back(std::move(node)); }
  void move(std::size_t node, std::size_t place) {
    put(nodes_[node], place);
    drop(node);
  }

  std::vector<Node> finish() && {
    std::vector<Node> result;
    for (std::size_t i = 0; i <= nodes_.size(); ++i) {
      for (Node& node : before_[i]) result.push_back(std::move(node));
      if (i < nodes_.size() && !leaves_[i]) result.push_back(std::move(nodes_[i]));
    }
    return result;
  }

 private:
  std::vector<Node> nodes_;
  std::vector<bool> leaves_;
  std::vector<std::vector<Node>> before_;
};

}  // namespace sinew::parallel
