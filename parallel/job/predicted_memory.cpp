#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/mesh/layout.hpp>

namespace sinew::parallel {

MemoryUse memory_use(const JobConfig& config) {
  // A rank of a pipeline reports its gradients when all its micro-batches are through, however many there are: those
  // that are to be scattered are whole until then.
  const bool accumulates = stages(config) == 1 ? config.micro_batches > 1 : config.zero == 2;
  return {.optimizer = AdamOptions{}, .accumulates = accumulates};
}

namespace {

std::size_t activations(int ranks, const JobConfig& config, const EngineFacts& engine, const RankPlace& place) {
  return engine.activation_bytes ? engine.activation_bytes(config, samples_of_pass(ranks, config), place) : 0;
}

PredictedMemory predict_one(int ranks, const JobConfig& config, const EngineFacts& engine, const RankPlace& place) {
  const DataStrategy strategy = data_strategy(ranks, config, engine);
  PredictedMemory all{
      plan_memory(engine.parameters(config, place), strategy.row, strategy.options, strategy.shape, memory_use(config)),
      activations(ranks, config, engine, place)};
  if (engine.experts == 0) return all;
  const DataStrategy of_experts = expert_strategy(ranks, config);
  const MemoryPlan experts = plan_memory(engine.expert_parameters(config, place), of_experts.row, of_experts.options,
                                         of_experts.shape, memory_use(config));
  for (std::size_t p = 0; p < all.held.bytes.size(); ++p) all.held.bytes[p] += experts.bytes[p];
  return all;
}

/// One of all ranks that hold the same numbers of elements, along each axis but cp: experts may be spread unevenly, and
/// inside them the rows.
std::vector<RankPlace> unlike_places(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const Layout layout(ranks, config.layout);
  std::map<std::tuple<int, int, int>, std::vector<std::int64_t>> of_experts;  // by pp, ep, etp
  const auto elements = [&](const RankPlace& place) {
    std::vector<std::int64_t>& known = of_experts[{place.pp, place.ep, place.etp}];
    if (known.empty() && engine.experts > 0) {
      for (const DataParameter& p : complete_parameters(engine.expert_parameters(config, place)))
        known.push_back(p.elements);
    }
    return known;
  };
  std::map<std::tuple<int, int, std::vector<std::int64_t>>, RankPlace> places;
  for (int r = 0; r < ranks; ++r) {
    const RankPlace place{.tp = layout.dense().index(r, "tp"),
                          .pp = layout.dense().index(r, "pp"),
                          .ep = layout.expert().index(r, "ep"),
                          .etp = layout.expert().index(r, "etp")};
    places.try_emplace({place.pp, place.tp, elements(place)}, place);
  }
  std::vector<RankPlace> all;
  for (const auto& [key, place] : places) all.push_back(place);
  return all;
}

}  // namespace

PredictedMemory predict_memory(int ranks, const JobConfig& config, const EngineFacts& engine,
                               std::optional<RankPlace> place) {
  if (place) return predict_one(ranks, config, engine, *place);
  PredictedMemory most{};
  for (RankPlace at : unlike_places(ranks, config, engine)) {
    PredictedMemory one = predict_one(ranks, config, engine, at);
    for (at.cp = 1; at.cp < config.layout.cp; ++at.cp)
      one.activation_bytes = std::max(one.activation_bytes, activations(ranks, config, engine, at));
    if (one.total() > most.total()) most = one;
  }
  return most;
}

std::string row_table(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const int data = data_ranks(ranks, config);
  const LayoutSizes& l = config.layout;
  const int of_expert = engine.experts > 0 ? ranks / (l.ep * l.etp * l.pp) : data;  // ranks that have each
  const int copies = config.replicas > 1 ? config.replicas : std::gcd(data, of_expert) % 2 == 0 ? 2 : 1;
  std::vector<NamedMemory> rows;
  for (const std::string_view name : data_row_names()) {
    JobConfig of_row = config;  // without settings that not every row has
    of_row.reshard = Reshard::AfterForward;
    of_row.prefetch_bytes = 0;
    of_row.replicas = name == "hsdp" ? copies : 1;
    of_row.zero = name == "hsdp" ? 3 : static_cast<int>(rows.size());
    rows.emplace_back(name, predict_memory(ranks, of_row, engine, RankPlace{}).held);
  }
  const auto on_top = static_cast<double>(activations(ranks, config, engine, {}));
  const bool is_large = on_top >= 1 << 30;
  return fmt::format("{}hsdp: {} {} of {} shards; activations on top: {:.2f} {}\n", memory_table(rows), copies,
                     copies == 1 ? "copy" : "copies", data / copies, on_top / (is_large ? 1 << 30 : 1 << 20),
                     is_large ? "GiB" : "MiB");
}

}  // namespace sinew::parallel
