#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/data/memory_plan.hpp>
#include <sinew/parallel/data/row.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>

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

}  // namespace

PredictedMemory predict_memory(int ranks, const JobConfig& config, const EngineFacts& engine,
                               std::optional<RankPlace> place) {
  if (place) return predict_one(ranks, config, engine, *place);
  PredictedMemory most{};
  for (int pp = 0; pp < config.layout.pp; ++pp) {
    for (int tp = 0; tp < config.layout.tp; ++tp) {
      PredictedMemory one = predict_one(ranks, config, engine, {tp, 0, pp});
      for (int cp = 1; cp < config.layout.cp; ++cp)
        one.activation_bytes = std::max(one.activation_bytes, activations(ranks, config, engine, {tp, cp, pp}));
      if (one.total() > most.total()) most = one;
    }
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
