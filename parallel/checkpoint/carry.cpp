#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/carry.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/reshard/execution.hpp>
#include <sinew/parallel/reshard/gathered_facts.hpp>
#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel {
namespace {

/// The label of carry_over's calls in errors.
constexpr const char* kCarryLabel = "carry over";
constexpr std::uint32_t kCarryTag = 0x43525259;
constexpr std::size_t kCarryBytes = std::size_t{64} << 20;

/// Steps that anybody holds, the newest first.
std::set<std::int64_t, std::greater<>> steps_in(const std::vector<std::int64_t>& of_ranks) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const std::int64_t step : of_ranks) {
    if (step >= 0) steps.insert(step);
  }
  return steps;
}

/// The numbers of a HeldState, as ranks send them to each other. The scale of the loss is sent as its bits. A scale
/// of 0 means that there is no scaler, and 0 samples mean that there is no sampler.
constexpr std::size_t kHeldNumbers = 10;
using HeldNumbers = std::array<std::int64_t, kHeldNumbers>;
HeldNumbers numbers_of(const HeldState& held) noexcept {
  const LossScaleState scaling = held.loss_scale.value_or(LossScaleState{.scale = 0});
  const SamplerState sampler = held.sampler.value_or(SamplerState{});
  return {held.step,          held.optimizer_steps,     std::bit_cast<std::int64_t>(scaling.scale),
          scaling.good_steps, scaling.skipped_steps,    std::bit_cast<std::int64_t>(sampler.seed),
          sampler.samples,    sampler.shuffled ? 1 : 0, sampler.epoch,
          sampler.position};
}
CarriedState carried_from(std::span<const std::int64_t, kHeldNumbers> numbers) noexcept {
  CarriedState carried{.step = numbers[0], .optimizer_steps = numbers[1]};
  const LossScaleState scaling{std::bit_cast<double>(numbers[2]), numbers[3], numbers[4]};
  if (scaling.scale != 0) carried.loss_scale = scaling;
  const SamplerState sampler{std::bit_cast<std::uint64_t>(numbers[5]), numbers[6], numbers[7] != 0, numbers[8],
                             numbers[9]};
  if (sampler.samples > 0) carried.sampler = sampler;
  return carried;
}

/// The state that all ranks hold.
struct AllHeld {
  std::vector<std::int64_t> steps;
  std::vector<CarriedState> states;  // by rank
  std::vector<std::vector<PartDescription>> parts;

  AllHeld(CallGroup all, const HeldState& held) {
    const auto mine = held.step >= 0 ? held.parts : std::span<const CheckpointPart>{};
    on_all_or_none(all, kCarryLabel, [&] {
      for (const CheckpointPart& part : mine) require_valid(part);
    });
    std::vector<std::int64_t> numbers(kHeldNumbers * static_cast<std::size_t>(all->size()));
    const HeldNumbers own = numbers_of(held);
    all->all_gather(own, numbers, all.options(kCarryLabel)).get();
    for (std::size_t i = 0; i < numbers.size(); i += kHeldNumbers) {
      states.push_back(carried_from(std::span(numbers).subspan(i).first<kHeldNumbers>()));
      steps.push_back(states.back().step);
    }
    parts = gather_parts(all, mine, kCarryLabel);
  }

  /// The facts of the ranks whose state is of this step. All other ranks hold nothing.
  std::vector<ReshardFacts> facts_at(std::int64_t step, const std::vector<std::vector<PartDescription>>& wanted,
                                     const std::vector<int>& hosts) const {
    std::vector<ReshardFacts> facts;
    for (std::size_t r = 0; r < parts.size(); ++r)
      facts.push_back({hosts[r], steps[r] == step ? parts[r] : std::vector<PartDescription>{}, wanted[r]});
    return facts;
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

/// A state is carried as it is: unlike reshard(), carry_over() converts nothing.
void require_equal_dtypes(const std::vector<ReshardFacts>& facts) {
  std::map<std::string_view, std::pair<std::size_t, const CheckpointItem*>> held;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    for (const PartDescription& part : facts[r].held) held.try_emplace(part.item.name, r, &part.item);
  }
  for (std::size_t r = 0; r < facts.size(); ++r) {
    for (const PartDescription& part : facts[r].wanted) {
      const auto holder = held.find(part.item.name);
      if (holder == held.end() || *holder->second.second == part.item) continue;
      throw Error(Code::InvalidArgument,
                  fmt::format("{}: rank {} holds {}, rank {} wants {}; expected the same", kCarryLabel,
                              holder->second.first, holder->second.second->to_string(), r, part.item.to_string()));
    }
  }
}

}  // namespace

std::optional<CarriedState> carry_over(CallGroup all, const HeldState& held, std::span<const CheckpointPart> wanted) {
  on_all_or_none(all, kCarryLabel, [&] {
    for (const CheckpointPart& part : wanted) require_valid(part);
  });
  const AllHeld of_all(all, held);
  const std::vector<std::vector<PartDescription>> wanted_by_all = gather_parts(all, wanted, kCarryLabel);
  const std::vector<int> hosts = gather_hosts(all, kCarryLabel);
  for (const std::int64_t step : steps_in(of_all.steps)) {
    const std::vector<ReshardFacts> facts = of_all.facts_at(step, wanted_by_all, hosts);
    require_equal_dtypes(facts);
    if (!are_held(facts)) continue;
    const auto mine = held.step == step ? held.parts : std::span<const CheckpointPart>{};
    ReshardPlan plan = plan_reshard(facts, kCarryBytes);
    std::optional<ReshardExecution> execution;
    on_all_or_none(all, kCarryLabel, [&] {  // a rank may have too little memory
      execution.emplace(all, std::move(plan), mine, wanted,
                        ReshardExecutionOptions{.keep_old = false, .tag = kCarryTag, .label = kCarryLabel});
    });
    execution->run();
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
