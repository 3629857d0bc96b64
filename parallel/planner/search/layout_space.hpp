#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/planner/planner.hpp>

namespace sinew::parallel {

/// The divisors of n, ascending.
std::vector<std::int64_t> sorted_divisors(std::int64_t n);

/// A configuration with the batch and the precision of the question, in which nothing is cut.
JobConfig plain_config(const PlanQuestion& question);

/// Every combination of tp, pp, cp and ep, whether it breaks a rule or not. Each has one microbatch, and shards
/// nothing.
std::vector<JobConfig> axis_layouts(const PlanQuestion& question);

/// The schedules for `pp` pipeline ranks, each with its number of virtual stages. A pipeline of one stage has one
/// schedule.
std::vector<std::pair<std::string, int>> schedules_for(const PlanQuestion& question, int pp);

/// The ways in which ZeRO++ may send less under this configuration, the plain one first. Each is a copy with other
/// values of JobConfig::weights, int4_gradients and near_ranks. Near ranks are those of a host.
std::vector<JobConfig> wire_variants(const PlanQuestion& question, const JobConfig& config);

/// A layout with one setting changed, and a text with the new value of this setting.
struct Neighbour {
  std::string text;  ///< "zero 1", "tp 4"
  JobConfig config;
};
/// Layouts with the nearest other values of each setting. Cheap changes come first: sharding, recomputation,
/// microbatches, the schedule, sizes.
std::vector<Neighbour> neighbours(const PlanQuestion& question, const JobConfig& config);

}  // namespace sinew::parallel
