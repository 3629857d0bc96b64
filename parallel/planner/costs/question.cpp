#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

PlanQuestion PlanQuestion::complete() const {
  constexpr std::int64_t kTokens = 4 << 20, kMostSamples = 1 << 20, kMostTokens = std::int64_t{1} << 36;
  constexpr double kLeastRate = 1e6;
  PlanQuestion q = *this;
  std::vector<std::string> faults = faults_of(model);
  if (q.sequence == 0) q.sequence = model.context;
  if (q.sequence < 1 || (model.learned_positions && q.sequence > model.context))
    faults.push_back(
        fmt::format("sequence: {}, expected 1 to {}, which the model has positions for", q.sequence, model.context));
  if (q.global_batch == 0 && q.sequence > 0) q.global_batch = std::max<std::int64_t>(kTokens / q.sequence, 1);
  if (q.global_batch < 1 || q.global_batch > kMostSamples)
    faults.push_back(fmt::format("global batch: {}, expected 1 to {}", q.global_batch, kMostSamples));
  if (q.global_batch >= 1 && q.global_batch <= kMostSamples && q.sequence >= 1 &&
      q.sequence > kMostTokens / q.global_batch)
    faults.push_back(fmt::format("global batch: {} of {} tokens each, expected {} tokens at most", q.global_batch,
                                 q.sequence, kMostTokens));
  for (const auto& [rate, what] :
       {std::pair(cluster.flops, "operations"), {cluster.memory_bytes_per_s, "bytes of memory"}}) {
    if (!(rate >= kLeastRate))
      faults.push_back(fmt::format("{} a second: {}, expected {:.0e} or more", what, rate, kLeastRate));
  }
  if (!(efficiency > 0 && efficiency <= 1))
    faults.push_back(fmt::format("efficiency: {}, expected more than 0, and 1 at most", efficiency));
  const Network& net = cluster.network;
  if (zero_plus_plus && (net.hosts < 2 || net.ranks_per_host < 2))
    faults.push_back(
        fmt::format("ZeRO++ on {} host{} of {} rank{}, expected 2 or more hosts of 2 or more ranks: it saves bytes "
                    "between hosts",
                    net.hosts, net.hosts == 1 ? "" : "s", net.ranks_per_host, net.ranks_per_host == 1 ? "" : "s"));
  if (!faults.empty())
    throw Error(Code::InvalidArgument, fmt::format("plan of '{}': {}", model.name, fmt::join(faults, "; ")));
  return q;
}

int data_ranks_of_host(const PlanQuestion& q, const JobConfig& config) {
  const int sharers = config.layout.tp * config.layout.cp, on_host = q.cluster.network.ranks_per_host;
  const int near = sharers > 0 && on_host % sharers == 0 ? on_host / sharers : 1;
  const int data = data_ranks(q.ranks(), config);
  return near < data && data % near == 0 ? near : 1;
}

LayerInput layer_input(const PlanQuestion& q, const JobConfig& config) {
  return {std::max<std::int64_t>(samples_of_pass(q.ranks(), config), 1),
          q.sequence,
          config.layout.tp,
          config.layout.cp,
          config.sequence_parallel,
          q.attention};
}

}  // namespace sinew::parallel
