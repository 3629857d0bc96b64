#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {
namespace {

/// Returns whether a name stands for the layer: its own name, or "layers" for all.
bool stands_for(const std::string& name, std::int64_t layer) {
  return name == "layers" || name == fmt::format("layers.{}", layer);
}

void judge_names(const std::string& policy, const std::vector<std::string>& names, std::int64_t layers,
                 std::vector<std::string>& faults) {
  for (const std::string& name : names) {
    bool found = false;
    for (std::int64_t l = 0; l < layers && !found; ++l) found = stands_for(name, l);
    if (!found)
      faults.push_back(fmt::format("{}: '{}' names no layer, expected 'layers', or 'layers.0' to 'layers.{}'", policy,
                                   name, layers - 1));
  }
}

void judge_store(const PlanQuestion& q, std::vector<std::string>& faults) {
  constexpr double kLeastRate = 1e3;
  const bool is_used = q.offloads_shards || !q.offloaded_activations.empty();
  if (is_used && !(q.store.bytes_per_s >= kLeastRate))
    faults.push_back(
        fmt::format("offload to a store of {} bytes a second, expected the rate of a rank's copies, {:.0e} "
                    "or more",
                    q.store.bytes_per_s, kLeastRate));
  if (q.store.bytes < 0 || q.store.window_bytes < 0)
    faults.push_back(fmt::format("a store of {} bytes with {} bytes on their way, expected 0 or more", q.store.bytes,
                                 q.store.window_bytes));
}

}  // namespace

std::vector<LayerTreatment> treatment_of_layers(const PlanQuestion& q, Recompute everywhere) {
  std::vector<LayerTreatment> all(static_cast<std::size_t>(q.model.layers), {everywhere, false});
  const auto for_each = [&](const std::string& name, const auto& change) {
    for (std::int64_t l = 0; l < q.model.layers; ++l) {
      if (stands_for(name, l)) change(all[static_cast<std::size_t>(l)]);
    }
  };
  for (const bool exact : {false, true}) {  // longer names come last, because they count more
    for (const RecomputedLayers& r : q.recomputed) {
      if ((r.name != "layers") == exact) for_each(r.name, [&](LayerTreatment& t) { t.recompute = r.recompute; });
    }
  }
  for (const std::string& name : q.offloaded_activations)
    for_each(name, [](LayerTreatment& t) { t.is_offloaded = true; });
  return all;
}

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
  if (faults_of(model).empty()) {
    std::vector<std::string> names;
    for (const RecomputedLayers& r : recomputed) names.push_back(r.name);
    judge_names("recomputation", names, model.layers, faults);
    judge_names("offload of activations", offloaded_activations, model.layers, faults);
  }
  judge_store(q, faults);
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
