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

/// What a configuration means for data parallelism, as its parts understand it. Of configurations that break no rule.
struct DataStrategy {
  Factorisation shape;  ///< the dense one; with replicas dp is cut into "shard", which is near, and "replica"
  std::vector<std::string> groups;  ///< of a mesh over all ranks
  std::string ranks;                ///< the group that sums gradients, all its axes together
  std::string samples;              ///< the axes along which ranks see different samples
  std::string context;              ///< those along which they share a sample
  std::string head_sharers, ring;   ///< of the latter: ranks that share heads, and their ring; empty: one rank
  DataRow row;
  DataParallelOptions options;  ///< gradients are sums over samples, to be divided by their number
  std::vector<int> sizes;       ///< ranks along each axis of the row
};

SINEW_API DataStrategy data_strategy(int ranks, const JobConfig& config, const EngineFacts& engine);

/// The same for experts: gradients are summed over edp, which with replicas is cut as dp is.
SINEW_API DataStrategy expert_strategy(int ranks, const JobConfig& config);

}  // namespace sinew::parallel
