#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/verify/channels.hpp>

namespace sinew::parallel {

/// For each action, the numbers of the actions for which it waits. An action also waits for the earlier actions of its
/// rank; these are not listed.
class Dependencies {
 public:
  /// For a schedule of compute alone: the output of a stage is at once available to the next stage.
  explicit Dependencies(const Inventory& inventory) : Dependencies(inventory, {}, std::nullopt, false) {}
  /// For a schedule with messages. Compute waits until its message is sent and its receive is posted. With
  /// `most_under_way`, a send also waits until at most that many sends of its channel, itself included, have no posted
  /// receive. 0: the send waits for its own receive.
  Dependencies(const Inventory& inventory, const std::vector<Channel>& channels,
               std::optional<std::int32_t> most_under_way)
      : Dependencies(inventory, channels, most_under_way, true) {}

  std::span<const std::int32_t> needs(std::int32_t number) const noexcept {
    const auto n = static_cast<std::size_t>(number);
    return std::span(needs_).subspan(begin_[n], begin_[n + 1] - begin_[n]);
  }

 private:
  Dependencies(const Inventory& inventory, const std::vector<Channel>& channels,
               std::optional<std::int32_t> most_under_way, bool messages);
  void need(std::int32_t number) { needs_.push_back(number); }
  void add_needs_of(const Action& action, bool messages);
  void add_gradient_of_output(const Action& action, bool messages);

  const Inventory& inventory_;
  std::vector<std::size_t> begin_;  // of each action's in needs_; one more at the end
  std::vector<std::int32_t> needs_;
};

/// Visits actions, each one after all actions for which it waits, and calls visit(number). Ends when no further action
/// can be taken. Returns how many actions each rank has taken.
/// Cost: a few memory accesses for each action and each wait.
template <class Visit>
std::vector<std::int32_t> walk(const Inventory& inventory, const Dependencies& dependencies, Visit&& visit) {
  const auto ranks = static_cast<std::size_t>(inventory.schedule().ranks());
  std::vector<std::int32_t> taken(ranks, 0);
  std::vector<bool> done(static_cast<std::size_t>(inventory.count()), false);
  std::vector<std::int32_t> waiting_for(done.size(), -1), next_waiting(ranks, -1);  // lists of ranks, by need
  std::vector<std::int32_t> able;
  for (std::size_t r = ranks; r-- > 0;) able.push_back(static_cast<std::int32_t>(r));
  while (!able.empty()) {
    const std::int32_t rank = able.back();
    able.pop_back();
    std::int32_t& mine = taken[static_cast<std::size_t>(rank)];
    const std::int32_t first = inventory.first(rank), last = inventory.first(rank + 1);
    for (std::int32_t n = first + mine; n < last; ++n, ++mine) {
      std::int32_t open = -1;
      for (const std::int32_t need : dependencies.needs(n)) {
        if (!done[static_cast<std::size_t>(need)]) open = need;
      }
      if (open >= 0) {
        next_waiting[static_cast<std::size_t>(rank)] = waiting_for[static_cast<std::size_t>(open)];
        waiting_for[static_cast<std::size_t>(open)] = rank;
        break;
      }
      visit(n);
      done[static_cast<std::size_t>(n)] = true;
      for (std::int32_t r = waiting_for[static_cast<std::size_t>(n)]; r >= 0;
           r = next_waiting[static_cast<std::size_t>(r)])
        able.push_back(r);
    }
  }
  return taken;
}

}  // namespace sinew::parallel
