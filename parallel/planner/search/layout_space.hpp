#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/planner/planner.hpp>

namespace sinew::parallel {

/// The divisors of n, ascending.
std::vector<std::int64_t> sorted_divisors(std::int64_t n);

/// A configuration of the question's batch and precision in which nothing is cut.
JobConfig plain_config(const PlanQuestion& question);

/// Every tp, pp, cp and ep, whether it breaks a rule or not: one micro-batch, nothing sharded.
std::vector<JobConfig> axis_layouts(const PlanQuestion& question);

/// Schedules and virtual stages of a pipeline; of one stage a single one.
std::vector<std::pair<std::string, int>> schedules_for(const PlanQuestion& question, int pp);

/// A change of one thing, and in which words.
struct Neighbour {
  std::string text;  ///< "zero 1", "tp 4"
  JobConfig config;
};
/// The nearest values of each thing that a layout is made of; the cheapest changes first: what is sharded, recomputed,
/// taken at a time, the schedule, sizes.
std::vector<Neighbour> neighbours(const PlanQuestion& question, const JobConfig& config);

}  // namespace sinew::parallel
