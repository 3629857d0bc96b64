#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <optional>
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

/// The states that all ranks hold. A rank with fewer states than others has empty ones, of step -1.
struct AllHeld {
  struct State {
    CarriedState facts;
    std::vector<PartDescription> parts;
  };
  std::vector<std::vector<State>> of_ranks;  // by rank

  AllHeld(CallGroup all, std::span<const HeldState> held) : of_ranks(static_cast<std::size_t>(all->size())) {
    on_all_or_none(all, kCarryLabel, [&] {
      for (const HeldState& state : held) {
        for (const CheckpointPart& part : parts_of(state)) require_valid(part);
      }
    });
    std::array<std::int64_t, 1> most{std::ssize(held)};
    all->all_reduce(most, ReduceOp::Max, all.options(kCarryLabel)).get();
    for (std::size_t i = 0; std::cmp_less(i, most[0]); ++i) gather(all, i < held.size() ? held[i] : HeldState{});
  }

  static std::span<const CheckpointPart> parts_of(const HeldState& state) noexcept {
    return state.step >= 0 ? state.parts : std::span<const CheckpointPart>{};
  }

  /// Steps that anybody holds, the newest first, each with its facts.
  std::map<std::int64_t, CarriedState, std::greater<>> steps() const {
    std::map<std::int64_t, CarriedState, std::greater<>> steps;
    for (const std::vector<State>& states : of_ranks) {
      for (const State& state : states) {
        if (state.facts.step >= 0) steps.try_emplace(state.facts.step, state.facts);
      }
    }
    return steps;
  }

  /// The parts that a rank holds of this step.
  std::vector<PartDescription> parts_at(std::int64_t step, std::size_t rank) const {
    std::vector<PartDescription> parts;
    for (const State& state : of_ranks[rank]) {
      if (state.facts.step == step) parts.insert(parts.end(), state.parts.begin(), state.parts.end());
    }
    return parts;
  }

  /// The facts of the ranks that hold state of this step. All other ranks hold nothing.
  std::vector<ReshardFacts> facts_at(std::int64_t step, const std::vector<std::vector<PartDescription>>& wanted,
                                     const std::vector<int>& hosts) const {
    std::vector<ReshardFacts> facts;
    for (std::size_t r = 0; r < of_ranks.size(); ++r) facts.push_back({hosts[r], parts_at(step, r), wanted[r]});
    return facts;
  }

  /// Returns whether the ranks that stay hold all elements, at this step, of every item of which any rank has a part.
  bool is_whole(std::int64_t step, const std::vector<bool>& stays) const {
    std::map<std::string_view, std::pair<const CheckpointItem*, std::vector<ElementRun>>> items;
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
      for (const State& state : of_ranks[r]) {
        for (const PartDescription& part : state.parts) {
          auto& [item, runs] = items[part.item.name];
          item = &part.item;
          if (!stays[r] || state.facts.step != step) continue;
          const std::vector<ElementRun> more = runs_of(part.item, part.extent);
          runs.insert(runs.end(), more.begin(), more.end());
        }
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

 private:
  /// One state of each rank.
  void gather(CallGroup all, const HeldState& held) {
    std::vector<std::int64_t> numbers(kHeldNumbers * of_ranks.size());
    all->all_gather(numbers_of(held), numbers, all.options(kCarryLabel)).get();
    std::vector<std::vector<PartDescription>> parts = gather_parts(all, parts_of(held), kCarryLabel);
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
      const auto of_rank = std::span(numbers).subspan(r * kHeldNumbers).first<kHeldNumbers>();
      of_ranks[r].push_back({carried_from(of_rank), std::move(parts[r])});
    }
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

std::optional<CarriedState> carry_over(CallGroup all, std::span<const HeldState> held,
                                       std::span<const CheckpointPart> wanted) {
  on_all_or_none(all, kCarryLabel, [&] {
    for (const CheckpointPart& part : wanted) require_valid(part);
  });
  const AllHeld of_all(all, held);
  const std::vector<std::vector<PartDescription>> wanted_by_all = gather_parts(all, wanted, kCarryLabel);
  const std::vector<int> hosts = gather_hosts(all, kCarryLabel);
  for (const auto& [step, facts_of_step] : of_all.steps()) {
    const std::vector<ReshardFacts> facts = of_all.facts_at(step, wanted_by_all, hosts);
    require_equal_dtypes(facts);
    if (!are_held(facts)) continue;
    std::vector<CheckpointPart> mine;
    for (const HeldState& state : held) {
      if (state.step == step) mine.insert(mine.end(), state.parts.begin(), state.parts.end());
    }
    ReshardPlan plan = plan_reshard(facts, kCarryBytes);
    std::optional<ReshardExecution> execution;
    on_all_or_none(all, kCarryLabel, [&] {  // a rank may have too little memory
      execution.emplace(all, std::move(plan), mine, wanted,
                        ReshardExecutionOptions{.keep_old = false, .tag = kCarryTag, .label = kCarryLabel});
    });
    execution->run();
    return facts_of_step;
  }
  return std::nullopt;
}

std::vector<int> ranks_to_leave(CallGroup all, std::span<const HeldState> held, int leaving) {
  const AllHeld of_all(all, held);
  const std::vector<bool> everybody(of_all.of_ranks.size(), true);
  for (const auto& [step, facts] : of_all.steps()) {
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
