#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/planner.hpp>

namespace sinew::parallel {

struct SearchOptions {
  std::size_t top = 10;           ///< so many of the best
  std::int64_t memory_bytes = 0;  ///< that a rank may take; 0: what the cluster's ranks have
  /// Called now and then: what is looked at, and how much of all is done.
  std::function<void(const std::string& what, double share)> progress{};
};

/// Layouts that lose for one reason.
struct LoserClass {
  std::string limit;    ///< "engine_parts", "memory with recompute none", "bubble"
  std::string found;    ///< of the one that comes nearest: "tp 128, and this engine has 96 parts", "93.0 of 80.0 GiB"
  std::string nearest;  ///< that layout
  std::string fix;      ///< the nearest change that would do; empty: no single one does
  std::int64_t count = 0;
};

struct PlanResult {
  std::vector<PlannedLayout> best;  ///< the fastest first; of equal ones that which takes less memory
  std::vector<LoserClass> losers;   ///< rules in the order in which they are judged, then memory, then what is slower
  std::int64_t judged = 0;          ///< layouts in all; of sizes that break a rule one, whatever else may vary
  std::int64_t fitting = 0;         ///< that break no rule and fit the memory
  int simulated = 0;                ///< pipelines
};

/// Every layout of the question: tp, pp, cp that divide the ranks, ep that divides those of a stage where there are
/// experts, dp what is left; zero 0 to 3; micro-batches that divide a rank's part of the batch; every named schedule,
/// with as many virtual stages as leave equally many layers to each; recomputation. Tensor-parallel ranks cut rows,
/// too.
/// What comes out breaks no rule of a Job (Planner::violations), and is the same wherever it is called.
/// Cost:   pipelines are simulated only where a bound that holds for all (least_makespan) leaves the rank open; seconds
///         for 1,024 ranks.
SINEW_API PlanResult search(Planner& planner, const SearchOptions& options = {});

}  // namespace sinew::parallel
