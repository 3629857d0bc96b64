#pragma once

// Looks for the best layouts, and says why other layouts are not among them. The room may include the rooms `planner`
// and `costs`, the mesh for divisors, and the names of pipeline schedules.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/planner.hpp>

namespace sinew::parallel {

/// Options of a search.
struct SearchOptions {
  std::size_t top = 10;           ///< how many of the best layouts to return
  std::int64_t memory_bytes = 0;  ///< the limit for a rank; 0: the memory that the cluster's ranks have
  /// Called from time to time, with what is looked at and the share of the work that is done.
  std::function<void(const std::string& what, double share)> progress{};
};

/// Layouts that are not among the best, for one reason.
struct LoserClass {
  std::string limit{};  ///< "engine_parts", "memory with recompute none", "bubble"
  /// A text that says how the nearest of them breaks the limit: "tp 128, and this engine has 96 parts", "93.0 of 80.0
  /// GiB".
  std::string found{};
  std::string nearest{};  ///< the layout that comes nearest
  std::string fix{};      ///< changes that mend the rule, or one that saves memory or time; empty: there is none
  std::int64_t count = 0;
};

/// The result of a search.
struct PlanResult {
  std::vector<PlannedLayout> best{};  ///< the fastest first; of equally fast ones, the one that takes less memory
  /// Broken rules in the order in which they are judged, then too much memory, then slower layouts.
  std::vector<LoserClass> losers{};
  /// All layouts. Sizes that break a rule count once, whatever else may vary.
  std::int64_t judged = 0;
  /// Layouts that break no rule and fit the memory. With PlanQuestion::stage_actions, a layout that is slower than the
  /// best counts if Planner::least_memory() fits.
  std::int64_t fitting = 0;
  int simulated = 0;  ///< the number of simulated pipelines
};

/// Judges every layout for the question. tp, pp and cp divide the ranks. ep divides the ranks of a stage if there are
/// experts. dp is the rest. zero is 0 to 3. Microbatches divide a rank's part of the batch. Every named schedule is
/// tried, with each number of virtual stages that gives all stages equally many layers, and every kind of
/// recomputation. Tensor-parallel ranks also cut rows. If the question allows ZeRO++, its parts are tried beside ZeRO
/// 3. If the job follows the schedule of its pipeline, and whole stages do not fit, the rest of the memory becomes the
/// budget of its stages (JobConfig::prefetch_bytes).
/// The result breaks no rule of a Job (Planner::violations). It is the same wherever it is computed.
/// Cost: each pipeline gets a lower bound of its time (least_makespan). Only pipelines that may be among the best by
///       this bound are simulated. 1,024 ranks take seconds.
SINEW_API PlanResult search(Planner& planner, const SearchOptions& options = {});

}  // namespace sinew::parallel
