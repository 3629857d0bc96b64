#include <algorithm>
#include <cstddef>
#include <string>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/dependencies.hpp>
#include <sinew/parallel/pipeline/verify/overlap_pairs.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {
namespace {

/// Takes all actions of a schedule, each pair as one. When no rank can go on, a pair is taken apart.
class OverlapSearch {
 public:
  explicit OverlapSearch(const PipelineSchedule& schedule)
      : inventory_(schedule),
        needs_(inventory_),
        backward_(static_cast<std::size_t>(inventory_.count()), -1),
        done_(backward_.size(), false) {
    for (std::int32_t r = 0; r < schedule.ranks(); ++r) {
      next_.push_back(inventory_.first(r));
      find_pairs(r);
    }
  }

  std::vector<OverlapPair> run() && {
    while (!is_complete()) {
      bool moves = false;
      for (std::int32_t r = 0; r < ranks(); ++r) moves = advance(r) || moves;
      if (!moves) take_one_apart();
    }
    std::vector<OverlapPair> pairs;
    for (std::int32_t n = 0; n < inventory_.count(); ++n) {
      const std::int32_t backward = backward_[static_cast<std::size_t>(n)], rank = inventory_.rank(n);
      if (backward >= 0) pairs.push_back({rank, n - inventory_.first(rank), backward - inventory_.first(rank)});
    }
    return pairs;
  }

 private:
  std::int32_t ranks() const noexcept { return static_cast<std::int32_t>(next_.size()); }
  bool has_ended(std::int32_t rank) const noexcept {
    return next_[static_cast<std::size_t>(rank)] == inventory_.first(rank + 1);
  }
  bool is_complete() const noexcept {
    for (std::int32_t r = 0; r < ranks(); ++r) {
      if (!has_ended(r)) return false;
    }
    return true;
  }

  void find_pairs(std::int32_t rank) {
    std::int32_t last = -1;  // compute of the rank
    for (std::int32_t n = inventory_.first(rank); n < inventory_.first(rank + 1); ++n) {
      const Action& action = inventory_.action(n);
      if (!is_compute(action.kind)) continue;
      if (last >= 0 && action.kind == ActionKind::Backward && inventory_.action(last).kind == ActionKind::Forward &&
          inventory_.action(last).micro_batch != action.micro_batch)
        backward_[static_cast<std::size_t>(last)] = n;
      last = n;
    }
  }

  bool is_ready(std::int32_t number) const {
    return std::ranges::all_of(needs_.needs(number),
                               [&](std::int32_t need) { return done_[static_cast<std::size_t>(need)]; });
  }
  /// Takes as many actions of the rank as can be taken. Returns whether there were any.
  bool advance(std::int32_t rank) {
    std::int32_t& next = next_[static_cast<std::size_t>(rank)];
    const std::int32_t before = next;
    while (!has_ended(rank)) {
      const std::int32_t last = std::max(next, backward_[static_cast<std::size_t>(next)]);
      if (!is_ready(next) || !(last == next || is_ready(last))) break;
      for (; next <= last; ++next) done_[static_cast<std::size_t>(next)] = true;
    }
    return next != before;
  }
  /// A schedule that runs without pairs has a rank whose next action is a forward pass that can be taken alone.
  void take_one_apart() {
    for (std::int32_t r = 0; r < ranks(); ++r) {
      if (has_ended(r) || !is_ready(next_[static_cast<std::size_t>(r)])) continue;
      backward_[static_cast<std::size_t>(next_[static_cast<std::size_t>(r)])] = -1;
      return;
    }
  }

  Inventory inventory_;
  Dependencies needs_;
  std::vector<std::int32_t> backward_;  // by number of a forward pass: the other one of its pair; -1: none
  std::vector<bool> done_;
  std::vector<std::int32_t> next_;  // number, by rank
};

}  // namespace

std::vector<OverlapPair> overlap_pairs(const PipelineSchedule& schedule) {
  const PipelineVerdict verdict = prove(schedule, {.messages = has_messages(schedule)});
  if (!verdict) throw Error(Code::InvalidArgument, "overlap_pairs: " + verdict.reason);
  return OverlapSearch(schedule).run();
}

}  // namespace sinew::parallel
