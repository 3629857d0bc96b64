#include <algorithm>
#include <cstddef>

#include <sinew/parallel/pipeline/verify/live_activations.hpp>

namespace sinew::parallel {
namespace {

/// Counts live activations by rank and by stage: now, and the most so far.
class Level {
 public:
  Level(std::vector<std::int32_t>& by_rank, std::vector<std::int32_t>& by_stage, std::size_t ranks, std::size_t stages)
      : most_by_rank_(by_rank), most_by_stage_(by_stage), by_rank_(ranks, 0), by_stage_(stages, 0) {
    by_rank.assign(ranks, 0);
    by_stage.assign(stages, 0);
  }

  void add(std::int32_t rank, std::int32_t stage, std::int32_t change) {
    raise(by_rank_, most_by_rank_, static_cast<std::size_t>(rank), change);
    raise(by_stage_, most_by_stage_, static_cast<std::size_t>(stage), change);
  }

 private:
  static void raise(std::vector<std::int32_t>& now, std::vector<std::int32_t>& most, std::size_t i,
                    std::int32_t change) {
    now[i] += change;
    most[i] = std::max(most[i], now[i]);
  }

  std::vector<std::int32_t>& most_by_rank_;
  std::vector<std::int32_t>& most_by_stage_;
  std::vector<std::int32_t> by_rank_, by_stage_;
};

}  // namespace

LiveActivations live_activations(const Inventory& inventory) {
  const auto ranks = static_cast<std::size_t>(inventory.schedule().ranks());
  const auto stages = static_cast<std::size_t>(inventory.schedule().stages());
  LiveActivations live;
  Level activations(live.by_rank, live.by_stage, ranks, stages);
  Level inputs(live.inputs_by_rank, live.inputs_by_stage, ranks, stages);
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    const Action& a = inventory.action(n);
    const std::int32_t rank = inventory.rank(n);
    if (a.kind == ActionKind::Forward) {
      const bool again = inventory.find(ActionKind::Recompute, a.stage, a.micro_batch) >= 0;
      (again ? inputs : activations).add(rank, a.stage, 1);
      if (inventory.schedule().forward_only) activations.add(rank, a.stage, -1);
    } else if (a.kind == ActionKind::Recompute) {
      inputs.add(rank, a.stage, -1);
      activations.add(rank, a.stage, 1);
    } else if (a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient) {
      activations.add(rank, a.stage, -1);
    }
  }
  return live;
}

}  // namespace sinew::parallel
