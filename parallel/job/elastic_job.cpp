#include <algorithm>
#include <numeric>

#include <sinew/parallel/job/elastic_job.hpp>
#include <sinew/parallel/job/job_rules.hpp>

namespace sinew::parallel {
namespace {

/// The configuration with this expert parallelism and as few micro-batches as possible.
std::optional<JobConfig> with_experts_over(int ep, int ranks, int most, const JobConfig& asked,
                                           const EngineFacts& engine) {
  JobConfig config = asked;
  config.layout.dp = 0;
  config.layout.ep = ep;
  const int data = data_ranks(ranks, config);
  if (data < 1 || asked.micro_batches < 1 || asked.global_batch % data != 0) return std::nullopt;
  config.replicas = std::gcd(asked.replicas, data);
  if (asked.near_ranks > 1) config.near_ranks = std::gcd(asked.near_ranks, data / std::max(config.replicas, 1));
  const std::int64_t samples = asked.global_batch / data;
  const std::int64_t passes_of_most = std::max(data_ranks(most, config), 1) * asked.micro_batches;
  const std::int64_t longest = (asked.global_batch + passes_of_most - 1) / passes_of_most;
  for (std::int64_t passes = asked.micro_batches; passes <= samples; ++passes) {
    if (samples % passes != 0 || samples / passes > longest) continue;
    config.micro_batches = passes;
    if (violations(ranks, config, engine).empty()) return config;
  }
  return std::nullopt;
}

}  // namespace

std::optional<JobConfig> elastic_job(int ranks, int most, const JobConfig& asked, const EngineFacts& engine) {
  for (int ep = asked.layout.ep; ep > 0; --ep) {
    if (auto config = with_experts_over(ep, ranks, most, asked, engine)) return config;
  }
  return std::nullopt;
}

std::vector<int> elastic_counts(int most, const JobConfig& asked, const EngineFacts& engine) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= most; ++ranks) {
    if (elastic_job(ranks, most, asked, engine)) counts.push_back(ranks);
  }
  return counts;
}

}  // namespace sinew::parallel
