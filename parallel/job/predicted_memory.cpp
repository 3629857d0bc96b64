#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/job/stage_sharding.hpp>

namespace sinew::parallel {

MemoryUse memory_use(const JobConfig& config, bool follows_schedule) {
  if (follows_schedule) return {.optimizer = AdamOptions{}};
  // A rank of a pipeline reports its gradients when all its micro-batches are through, however many there are: those
  // that are to be scattered are whole until then.
  const bool accumulates = stages(config) == 1 ? config.micro_batches > 1 : config.zero == 2;
  return {.optimizer = AdamOptions{}, .accumulates = accumulates};
}

namespace {

std::size_t activations(int ranks, const JobConfig& config, const EngineFacts& engine, const RankPlace& place) {
  return engine.activation_bytes ? engine.activation_bytes(config, samples_of_pass(ranks, config), place) : 0;
}

/// The schedule that data parallelism follows. {}: it follows none.
std::optional<PipelineSchedule> followed_schedule(int ranks, const JobConfig& config, const EngineFacts& engine) {
  if (!follows_schedule(config, engine)) return std::nullopt;
  return sharded_schedule(ranks, config, engine).schedule;
}

PredictedMemory predict_one(int ranks, const JobConfig& config, const EngineFacts& engine, const RankPlace& place,
                            const std::optional<PipelineSchedule>& followed) {
  const MemoryUse use = memory_use(config, followed.has_value());
  const auto planned = [&](DataStrategy strategy, const std::vector<DataParameter>& parameters) {
    if (followed) follow(strategy, *followed, config, engine, place, parameters);
    return plan_memory(parameters, strategy.row, strategy.options, strategy.shape, use);
  };
  PredictedMemory all{planned(data_strategy(ranks, config, engine), engine.parameters(config, place)),
                      activations(ranks, config, engine, place)};
  if (engine.experts == 0) return all;
  const MemoryPlan experts = planned(expert_strategy(ranks, config), engine.expert_parameters(config, place));
  for (std::size_t p = 0; p < all.held.bytes.size(); ++p) all.held.bytes[p] += experts.bytes[p];
  return all;
}

}  // namespace

PredictedMemory predict_memory(int ranks, const JobConfig& config, const EngineFacts& engine,
                               std::optional<RankPlace> place) {
  const std::optional<PipelineSchedule> followed = followed_schedule(ranks, config, engine);
  if (place) return predict_one(ranks, config, engine, *place, followed);
  PredictedMemory most{};
  for (RankPlace at : unlike_places(ranks, config, engine)) {
    PredictedMemory one = predict_one(ranks, config, engine, at, followed);
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
    of_row.weights = WeightWire::Plain;
    of_row.int4_gradients = false;
    of_row.near_ranks = 1;
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
