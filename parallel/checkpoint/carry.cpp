#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/carry.hpp>
#include <sinew/parallel/checkpoint/carry_requests.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/mesh/agreement.hpp>

namespace sinew::parallel {
namespace {

std::string description_of(std::span<const CheckpointPart> parts) {
  std::vector<PartDescription> all;
  for (const CheckpointPart& part : parts) {
    require_valid(part);
    all.push_back({part.item, part.extent});
  }
  return to_text(all);
}

/// Steps that anybody holds, the newest first.
std::set<std::int64_t, std::greater<>> steps_in(const std::vector<std::int64_t>& of_ranks) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const std::int64_t step : of_ranks) {
    if (step >= 0) steps.insert(step);
  }
  return steps;
}

/// The numbers of a HeldState, as ranks send them to each other. The scale of the loss is sent as its bits.
constexpr std::size_t kHeldNumbers = 5;
using HeldNumbers = std::array<std::int64_t, kHeldNumbers>;
HeldNumbers numbers_of(const HeldState& held) noexcept {
  const LossScaleState scaling = held.loss_scale.value_or(LossScaleState{.scale = 0});  // 0: there is none
  return {held.step, held.optimizer_steps, std::bit_cast<std::int64_t>(scaling.scale), scaling.good_steps,
          scaling.skipped_steps};
}
CarriedState carried_from(std::span<const std::int64_t, kHeldNumbers> numbers) noexcept {
  CarriedState carried{.step = numbers[0], .optimizer_steps = numbers[1]};
  const LossScaleState scaling{std::bit_cast<double>(numbers[2]), numbers[3], numbers[4]};
  if (scaling.scale != 0) carried.loss_scale = scaling;
  return carried;
}

/// The state that all ranks hold.
struct AllHeld {
  std::vector<std::int64_t> steps;
  std::vector<CarriedState> states;  // by rank
  std::vector<std::vector<PartDescription>> parts;

  AllHeld(CallGroup all, const HeldState& held) {
    std::string mine;
    on_all_or_none(all, kCarryLabel,
                   [&] { mine = description_of(held.step >= 0 ? held.parts : std::span<const CheckpointPart>{}); });
    std::vector<std::int64_t> numbers(kHeldNumbers * static_cast<std::size_t>(all->size()));
    const HeldNumbers own = numbers_of(held);
    all->all_gather(own, numbers, all.options(kCarryLabel)).get();
    for (std::size_t i = 0; i < numbers.size(); i += kHeldNumbers) {
      states.push_back(carried_from(std::span(numbers).subspan(i).first<kHeldNumbers>()));
      steps.push_back(states.back().step);
    }
    for (const std::string& text : texts_of_all(all, mine, all.options(kCarryLabel)))
      parts.push_back(descriptions_from_text(text));
  }

  /// Returns whether the ranks that stay hold all elements, at this step, of every item of which any rank has a part.
  bool is_whole(std::int64_t step, const std::vector<bool>& stays) const {
    std::map<std::string_view, std::pair<const CheckpointItem*, std::vector<ElementRun>>> items;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      for (const PartDescription& part : parts[r]) {
        auto& [item, runs] = items[part.item.name];
        item = &part.item;
        if (!stays[r] || steps[r] != step) continue;
        const std::vector<ElementRun> more = runs_of(part.item, part.extent);
        runs.insert(runs.end(), more.begin(), more.end());
      }
    }
    return std::ranges::all_of(items, [](auto& named) {
      auto& [item, runs] = named.second;
      std::ranges::sort(runs, {}, &ElementRun::first);
      std::int64_t end = 0;
      for (const ElementRun& run : runs) {
        if (run.first > end) return false;
        end = std::max(end, run.last);
      }
      return end >= item->elements();
    });
  }
};

}  // namespace

std::optional<CarriedState> carry_over(CallGroup all, const HeldState& held, std::span<const CheckpointPart> wanted) {
  on_all_or_none(all, kCarryLabel, [&] {
    for (const CheckpointPart& part : wanted) require_valid(part);
  });
  const AllHeld of_all(all, held);
  for (const std::int64_t step : steps_in(of_all.steps)) {
    CarryRequests requests;
    on_all_or_none(all, kCarryLabel,
                   [&] { requests = carry_requests(all->rank(), of_all.parts, of_all.steps, step, wanted); });
    std::array<std::int32_t, 1> is_whole{requests.is_whole ? 1 : 0};
    all->all_reduce(is_whole, ReduceOp::Min, all.options(kCarryLabel)).get();
    if (is_whole[0] == 0) continue;
    fulfil(all, requests, held.parts);
    const auto holder = std::ranges::find(of_all.steps, step) - of_all.steps.begin();
    return of_all.states[static_cast<std::size_t>(holder)];
  }
  return std::nullopt;
}

std::vector<int> ranks_to_leave(CallGroup all, const HeldState& held, int leaving) {
  const AllHeld of_all(all, held);
  const std::vector<bool> everybody(of_all.parts.size(), true);
  for (const std::int64_t step : steps_in(of_all.steps)) {
    if (!of_all.is_whole(step, everybody)) continue;
    std::vector<bool> stays = everybody;
    std::vector<int> ranks;
    for (int r = all->size() - 1; r >= 0 && std::ssize(ranks) < leaving; --r) {
      stays[static_cast<std::size_t>(r)] = false;
      if (of_all.is_whole(step, stays)) {
        ranks.push_back(r);
      } else {
        stays[static_cast<std::size_t>(r)] = true;
      }
    }
    if (std::ssize(ranks) == leaving) return ranks;
  }
  std::vector<int> last;
  for (int r = all->size() - leaving; r < all->size(); ++r) last.push_back(r);
  return last;
}

}  // namespace sinew::parallel
