#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>

namespace sinew::parallel {

/// The memory of a rank.
/// Units: bytes
struct PlannedMemory {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
  std::int64_t underway = 0;  ///< gathered parameters, and gradients that wait for their reduce_scatter
  std::int64_t activations = 0;

  std::int64_t total() const noexcept { return parameters + gradients + optimizer + underway + activations; }
};

/// The memory of ranks for parameters, gradients and Adam's state: plan_memory() of planned_engine(), computed once for
/// each configuration. Parameters of experts are sharded over the ranks that have the same experts (edp), all others
/// over cp and dp.
class SINEW_API HeldPlans {
 public:
  explicit HeldPlans(PlanQuestion question) : question_(std::move(question)) {}

  /// The memory of each pipeline rank without activations, for the tensor-parallel rank that holds most.
  /// Shape: a configuration whose layout breaks no rule.
  const std::vector<PlannedMemory>& by_rank(const JobConfig& config);

 private:
  using Key = std::array<int, 7>;

  PlannedMemory of_place(const JobConfig& config, const RankPlace& place);
  void add(const JobConfig& config, const std::vector<DataParameter>& parameters, int shards, PlannedMemory& to);

  PlanQuestion question_;
  std::map<Key, std::vector<PlannedMemory>> known_;
  std::map<std::vector<std::int64_t>, PlannedMemory> by_list_;
};

}  // namespace sinew::parallel
