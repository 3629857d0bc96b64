#include <algorithm>

#include <sinew/core/store/relay_tree.hpp>

namespace sinew {

RelayTree::RelayTree(int fan_out) : fan_out_(std::max(fan_out, 1)), nodes_(1) {}

RelayTree::Place RelayTree::add() {
  const int number = static_cast<int>(nodes_.size());
  nodes_.emplace_back();
  return {number, place_below(number)};
}

RelayTree::Place RelayTree::add_again(int number, int unreachable) {
  const int old = nodes_[static_cast<std::size_t>(number)].parent;
  if (old != unreachable || old == 0) return {number, old};
  Node& parent = nodes_[static_cast<std::size_t>(old)];
  parent.is_reachable = false;
  --parent.children;
  return {number, place_below(number)};
}

/// Only relays with lower numbers may be its parent, so that no relay becomes its own ancestor. If none of them has
/// room, the server takes one more.
int RelayTree::place_below(int number) {
  const auto has_room = [this](const Node& n) { return n.is_reachable && n.children < fan_out_; };
  while (first_with_room_ < nodes_.size() && !has_room(nodes_[first_with_room_])) ++first_with_room_;
  const int parent = first_with_room_ < static_cast<std::size_t>(number) ? static_cast<int>(first_with_room_) : 0;
  ++nodes_[static_cast<std::size_t>(parent)].children;
  nodes_[static_cast<std::size_t>(number)].parent = parent;
  return parent;
}

int RelayTree::depth_of(int number) const noexcept {
  int depth = 0;
  for (; number > 0; ++depth) number = nodes_[static_cast<std::size_t>(number)].parent;
  return depth;
}

}  // namespace sinew
