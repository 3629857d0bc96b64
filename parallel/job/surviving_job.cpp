#include <algorithm>
#include <numeric>
#include <optional>

#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/surviving_job.hpp>

namespace sinew::parallel {
namespace {

/// The configuration for `ranks` ranks with expert parallelism of `ep`. nullopt if they cannot share the requested
/// batch.
std::optional<JobConfig> shared_by(int ranks, int ep, const JobConfig& asked) {
  JobConfig config = asked;
  config.layout.dp = 0;
  config.layout.ep = ep;
  const int data = data_ranks(ranks, config);
  if (data < 1 || config.micro_batches < 1) return std::nullopt;
  const std::int64_t even = data * config.micro_batches;
  config.global_batch = asked.global_batch / even * even;
  config.replicas = std::gcd(asked.replicas, data);
  if (asked.near_ranks > 1) config.near_ranks = std::gcd(asked.near_ranks, data / std::max(config.replicas, 1));
  if (config.global_batch < 1) return std::nullopt;
  return config;
}

}  // namespace

SurvivingJob surviving_job(int left, const JobConfig& asked, const EngineFacts& engine) {
  for (int ranks = left; ranks > 0; --ranks) {
    for (int ep = asked.layout.ep; ep > 0; --ep) {
      const std::optional<JobConfig> config = shared_by(ranks, ep, asked);
      if (config && violations(ranks, *config, engine).empty()) return {ranks, *config};
    }
  }
  JobConfig as_it_was = asked;
  as_it_was.layout.dp = 0;
  require_no_violations(left, as_it_was, engine);
  return {left, as_it_was};
}

bool is_held_by_each(const JobConfig& config) noexcept {
  const LayoutSizes& l = config.layout;
  return config.zero == 0 && l.tp == 1 && l.pp == 1 && l.ep == 1 && l.etp == 1;
}

}  // namespace sinew::parallel
