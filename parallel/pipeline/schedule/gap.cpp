#include <fmt/format.h>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/gap.hpp>
#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>

namespace sinew::parallel {
namespace {

constexpr ActionKind kMessages[] = {ActionKind::SendActivation, ActionKind::ReceiveActivation, ActionKind::SendGradient,
                                    ActionKind::ReceiveGradient};

class Gaps {
 public:
  explicit Gaps(const Inventory& inventory)
      : inventory_(inventory), schedule_(inventory.schedule()), first_reduce_(find_reduce()) {}

  std::optional<ScheduleFault> run(bool messages) const {
    for (std::int32_t s = 0; s < schedule_.stages(); ++s) {
      for (std::int32_t m = 0; m < schedule_.micro_batches; ++m) {
        auto fault = judge_compute(s, m);
        if (!fault) fault = judge_messages(s, m, messages);
        if (fault) return fault;
      }
      if (first_reduce_ >= 0 && !schedule_.forward_only && !has(ActionKind::Reduce, s, -1))
        return missing(s, fmt::format("{}; stage {} has one", name(ActionKind::Reduce, s, -1), first_reduce_));
    }
    return std::nullopt;
  }

 private:
  static std::string name(ActionKind kind, std::int32_t s, std::int32_t m) { return to_string(Action{kind, s, m}); }
  bool has(ActionKind kind, std::int32_t s, std::int32_t m) const { return inventory_.find(kind, s, m) >= 0; }

  std::int32_t find_reduce() const {
    for (std::int32_t s = 0; s < schedule_.stages(); ++s) {
      if (has(ActionKind::Reduce, s, -1)) return s;
    }
    return -1;
  }

  ScheduleFault missing(std::int32_t stage, const std::string& what) const {
    return {"there is no " + what, rank_of(schedule_, stage)};
  }
  ScheduleFault too_much(std::int32_t number, const std::string& why) const {
    const std::int32_t rank = inventory_.rank(number);
    return {fmt::format("{}: {}", to_string(inventory_.action(number)), why), rank, number - inventory_.first(rank)};
  }

  std::optional<ScheduleFault> judge_compute(std::int32_t s, std::int32_t m) const {
    using enum ActionKind;
    if (!has(Forward, s, m)) return missing(s, name(Forward, s, m));
    if (schedule_.forward_only) return judge_forward_only(s, m);
    const bool has_input = has(InputGradient, s, m), has_weight = has(WeightGradient, s, m);
    if (!has(Backward, s, m)) {
      if (has_input && has_weight) return std::nullopt;
      if (has_input) return missing(s, name(WeightGradient, s, m));
      if (has_weight) return missing(s, name(InputGradient, s, m));
      return missing(s, fmt::format("{}, and no {} and {} either", name(Backward, s, m), name(InputGradient, s, m),
                                    name(WeightGradient, s, m)));
    }
    if (!has_input && !has_weight) return std::nullopt;
    return too_much(inventory_.find(has_input ? InputGradient : WeightGradient, s, m),
                    fmt::format("{} does the same", name(Backward, s, m)));
  }

  std::optional<ScheduleFault> judge_forward_only(std::int32_t s, std::int32_t m) const {
    using enum ActionKind;
    for (const ActionKind kind : {Backward, InputGradient, WeightGradient, Recompute, SendGradient, ReceiveGradient}) {
      if (has(kind, s, m)) return too_much(inventory_.find(kind, s, m), "expected a forward-only schedule without");
    }
    if (!has(Reduce, s, -1)) return std::nullopt;
    return too_much(inventory_.find(Reduce, s, -1), "expected a forward-only schedule without");
  }

  std::optional<ScheduleFault> judge_messages(std::int32_t s, std::int32_t m, bool messages) const {
    for (const ActionKind kind : kMessages) {
      const std::int32_t found = inventory_.find(kind, s, m);
      if (found >= 0 && !messages) return too_much(found, "expected a schedule without messages");
      if (found >= 0 && !has_message(schedule_, kind, s)) return too_much(found, "there is no other rank to share it");
      if (found < 0 && messages && has_message(schedule_, kind, s)) return missing(s, name(kind, s, m));
    }
    return std::nullopt;
  }

  const Inventory& inventory_;
  const PipelineSchedule& schedule_;
  std::int32_t first_reduce_;  // stage that has one; -1: none has
};

}  // namespace

std::optional<ScheduleFault> find_gap(const Inventory& inventory, bool messages) {
  return Gaps(inventory).run(messages);
}

}  // namespace sinew::parallel
