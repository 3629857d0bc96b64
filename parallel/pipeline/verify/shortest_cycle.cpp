#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>

#include <sinew/parallel/pipeline/verify/shortest_cycle.hpp>

namespace sinew::parallel {
namespace {

/// Of each action whether walk() has left it and a circle waits for it: what is left but only waits for a circle is not
/// part of one. Found by taking away, again and again, what nothing else waits for.
std::vector<bool> waited_for(const Inventory& inventory, const Dependencies& dependencies,
                             const std::vector<std::int32_t>& taken) {
  std::vector<bool> left(static_cast<std::size_t>(inventory.count()), true);
  std::vector<std::int32_t> waiting(left.size(), 0);  // actions that wait for this one
  std::vector<std::int32_t> free;
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    const std::int32_t rank = inventory.rank(n);
    left[static_cast<std::size_t>(n)] = n >= inventory.first(rank) + taken[static_cast<std::size_t>(rank)];
    if (!left[static_cast<std::size_t>(n)]) continue;
    for (const std::int32_t need : dependencies.needs(n)) ++waiting[static_cast<std::size_t>(need)];
    if (n + 1 < inventory.first(rank + 1)) ++waiting[static_cast<std::size_t>(n)];
  }
  const auto give_up = [&](std::int32_t n) {
    if (--waiting[static_cast<std::size_t>(n)] == 0 && left[static_cast<std::size_t>(n)]) free.push_back(n);
  };
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    if (left[static_cast<std::size_t>(n)] && waiting[static_cast<std::size_t>(n)] == 0) free.push_back(n);
  }
  while (!free.empty()) {
    const std::int32_t n = free.back();
    free.pop_back();
    left[static_cast<std::size_t>(n)] = false;
    for (const std::int32_t need : dependencies.needs(n)) give_up(need);
    if (n > inventory.first(inventory.rank(n))) give_up(n - 1);
  }
  return left;
}

/// Searches from one action at a time, backwards along what is waited for. An action is reached either as what another
/// one needs, or on the way back along its rank: the first step back costs one action, further ones nothing, as only
/// the last counts as part of the circle.
class Search {
 public:
  Search(const Inventory& inventory, const Dependencies& dependencies, const std::vector<std::int32_t>& taken)
      : inventory_(inventory),
        dependencies_(dependencies),
        in_play_(waited_for(inventory, dependencies, taken)),
        nodes_(2 * in_play_.size()) {}

  std::vector<std::int32_t> run() {
    std::vector<bool> is_needed(in_play_.size(), false);
    for (std::int32_t n = 0; n < inventory_.count(); ++n) {
      if (!is_in_play(n)) continue;
      for (const std::int32_t need : dependencies_.needs(n)) is_needed[static_cast<std::size_t>(need)] = true;
    }
    for (std::int32_t n = 0; n < inventory_.count() && least_ > 2; ++n) {
      if (is_in_play(n) && is_needed[static_cast<std::size_t>(n)]) search_from(n);
    }
    std::ranges::rotate(best_, std::ranges::min_element(best_));
    return best_;
  }

 private:
  struct Node {
    std::int32_t search = -1;  // the last one that reached it
    std::int32_t length = 0;   // of the way to it, in actions
    std::int32_t from = -1;    // state before it
  };

  bool is_in_play(std::int32_t n) const { return in_play_[static_cast<std::size_t>(n)]; }
  static std::int32_t as_need(std::int32_t n) { return 2 * n; }
  static std::int32_t on_way_back(std::int32_t n) { return 2 * n + 1; }

  void search_from(std::int32_t start) {
    start_ = start;
    queue_.clear();
    nodes_[static_cast<std::size_t>(as_need(start))] = {start, 0, -1};
    queue_.push_back(as_need(start));
    while (!queue_.empty()) {
      const std::int32_t state = queue_.front();
      queue_.pop_front();
      const std::int32_t n = state / 2, length = nodes_[static_cast<std::size_t>(state)].length;
      if (length + 1 >= least_) return;
      for (const std::int32_t need : dependencies_.needs(n)) {
        if (need == start) return keep(state, length + 1);
        if (is_in_play(need)) reach(as_need(need), length + 1, state);
      }
      const bool walks = state % 2 == 1;
      if (n > inventory_.first(inventory_.rank(n)) && is_in_play(n - 1))
        reach(on_way_back(n - 1), walks ? length : length + 1, state);
    }
  }

  void reach(std::int32_t state, std::int32_t length, std::int32_t from) {
    Node& node = nodes_[static_cast<std::size_t>(state)];
    if (node.search == start_ && node.length <= length) return;
    node = {start_, length, from};
    if (length == nodes_[static_cast<std::size_t>(from)].length) {
      queue_.push_front(state);
    } else {
      queue_.push_back(state);
    }
  }

  void keep(std::int32_t state, std::int32_t length) {
    least_ = length;
    best_.clear();
    for (std::int32_t at = state; at >= 0; at = nodes_[static_cast<std::size_t>(at)].from) {
      const bool passed = !best_.empty() && at % 2 == 1 && last_ % 2 == 1;  // on a way back only its end counts
      if (!passed) best_.push_back(at / 2);
      last_ = at;
    }
    std::ranges::reverse(best_);
  }

  const Inventory& inventory_;
  const Dependencies& dependencies_;
  std::vector<bool> in_play_;
  std::vector<Node> nodes_;  // two states of each action
  std::deque<std::int32_t> queue_;
  std::int32_t start_ = -1, last_ = -1;
  std::int32_t least_ = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t> best_;
};

}  // namespace

std::vector<std::int32_t> shortest_cycle(const Inventory& inventory, const Dependencies& dependencies,
                                         const std::vector<std::int32_t>& taken) {
  return Search(inventory, dependencies, taken).run();
}

}  // namespace sinew::parallel
