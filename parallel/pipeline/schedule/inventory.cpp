#include <fmt/format.h>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::Reduce) + 1;

}  // namespace

Inventory::Inventory(const PipelineSchedule& schedule) : schedule_(schedule), fault_(judge_sizes()) {
  if (!fault_) number_actions();
}

/// Before memory is asked for that grows with stages times micro-batches: each has an action.
std::optional<ScheduleFault> Inventory::judge_sizes() const {
  const std::int32_t stages = schedule_.stages();
  if (stages < 1 || schedule_.micro_batches < 1)
    return ScheduleFault{
        fmt::format("{} stages and {} micro-batches: expected 1 or more of each", stages, schedule_.micro_batches)};
  for (std::int32_t s = 0; s < stages; ++s) {
    const std::int32_t rank = rank_of(schedule_, s);
    if (rank < 0 || rank >= schedule_.ranks())
      return ScheduleFault{fmt::format("stage {} is on rank {}: there are {} ranks", s, rank, schedule_.ranks())};
  }
  std::size_t actions = 0;
  for (const std::vector<Action>& of_rank : schedule_.actions) actions += of_rank.size();
  const std::int64_t least = std::int64_t{stages} * schedule_.micro_batches;
  if (least > static_cast<std::int64_t>(actions))
    return ScheduleFault{fmt::format("{} actions: fewer than the forward passes of {} micro-batches through {} stages",
                                     actions, schedule_.micro_batches, stages)};
  return std::nullopt;
}

/// A text that says what is wrong with an action by itself. Empty: nothing.
std::string Inventory::judge(const Action& a, std::int32_t rank) const {
  if (a.stage < 0 || a.stage >= schedule_.stages())
    return fmt::format("{}: the stages are 0..{}", to_string(a), schedule_.stages() - 1);
  if (has_micro_batch(a.kind) && (a.micro_batch < 0 || a.micro_batch >= schedule_.micro_batches))
    return fmt::format("{}: the micro-batches are 0..{}", to_string(a), schedule_.micro_batches - 1);
  if (!has_micro_batch(a.kind) && a.micro_batch != -1)
    return fmt::format("{} of micro-batch {}: expected -1, as it is of none", to_string(a), a.micro_batch);
  if (rank_of(schedule_, a.stage) != rank)
    return fmt::format("{}: stage {} is on rank {}", to_string(a), a.stage, rank_of(schedule_, a.stage));
  return {};
}

void Inventory::number_actions() {
  const auto stages = static_cast<std::size_t>(schedule_.stages());
  const auto unshard = static_cast<std::size_t>(ActionKind::Unshard);
  places_.assign(stages * (unshard * static_cast<std::size_t>(schedule_.micro_batches) + kKinds - unshard), -1);
  for (std::int32_t rank = 0; rank < schedule_.ranks(); ++rank) {
    const std::vector<Action>& of_rank = schedule_.actions[static_cast<std::size_t>(rank)];
    first_.push_back(count());
    for (const Action& a : of_rank) {
      std::string wrong = judge(a, rank);
      if (wrong.empty()) {
        std::int32_t& known = places_[place(a.kind, a.stage, a.micro_batch)];
        if (known >= 0 && has_micro_batch(a.kind)) wrong = to_string(a) + " a second time";
        known = count();
      }
      if (!wrong.empty()) {
        fault_ = ScheduleFault{std::move(wrong), rank, count() - first_.back()};
        return;
      }
      actions_.push_back(a);
      ranks_.push_back(rank);
    }
  }
  first_.push_back(count());
}

std::string to_string(const ScheduleFault& fault) {
  return fault.rank < 0 ? fault.what : fmt::format("rank {}: {}", fault.rank, fault.what);
}

}  // namespace sinew::parallel
