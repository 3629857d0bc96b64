#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {

/// The arguments of data parallelism for a configuration. The configuration must break no rule.
struct DataStrategy {
  /// The dense factorisation. With replicas, dp is cut into "shard", whose ranks are near, and "replica". With near
  /// ranks, dp or shard is cut into "near" and "far".
  Factorisation shape;
  std::vector<std::string> groups;  ///< the groups of a mesh over all ranks
  std::string ranks;                ///< all axes over which gradients are summed
  std::string samples;              ///< the axes along which ranks see different samples
  std::string context;              ///< the axes along which ranks share a sample
  /// The axes of `context` along which ranks share heads, and those along which they make a ring. Empty: one rank.
  std::string head_sharers, ring;
  DataRow row;
  DataParallelOptions options;  ///< gradients are sums over samples, to be divided by the number of samples
  std::vector<int> sizes;       ///< ranks along each axis of the row
  std::string near{};           ///< the axes of the row along which ranks are near. Empty: there are none
};

SINEW_API DataStrategy data_strategy(int ranks, const JobConfig& config, const EngineFacts& engine);

/// The same for experts. Gradients are summed over edp, which is cut as dp is if there are replicas.
SINEW_API DataStrategy expert_strategy(int ranks, const JobConfig& config);

}  // namespace sinew::parallel
