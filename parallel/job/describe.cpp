#include <fmt/format.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>

namespace sinew::parallel {
namespace {

std::string mib(std::size_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

std::string experts_of(int ranks, const JobConfig& config, const EngineFacts& engine) {
  if (engine.experts == 0) return "";
  return fmt::format("; {} experts: {}", engine.experts, expert_strategy(ranks, config).shape.to_string());
}

}  // namespace

std::string describe(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const DataStrategy strategy = data_strategy(ranks, config, engine);
  const PredictedMemory memory = predict_memory(ranks, config, engine);
  const MemoryPlan& held = memory.held;
  std::int64_t elements = 0;
  JobConfig uncut = config;
  uncut.layout.tp = 1;
  uncut.layout.pp = 1;
  uncut.virtual_stages = 1;
  uncut.layout.ep = 1;
  uncut.layout.etp = 1;
  for (const DataParameter& p : complete_parameters(engine.parameters(uncut, {}))) elements += p.elements;
  if (engine.experts > 0)
    for (const DataParameter& p : complete_parameters(engine.expert_parameters(uncut, {}))) elements += p.elements;
  return fmt::format(
      "layout     {} rank{}: {}, parameters by {}{}\n"
      "batch      {} samples a step: {} rank{} x {} pass{} of {}\n"
      "precision  {} parameters of {}, gradients {}, outputs {}; recompute {}, {}, seed {}\n"
      "memory     {} MiB a rank: parameters {}, gradients {}, optimizer {}, under way {}, residuals {}, activations {}",
      ranks, ranks == 1 ? "" : "s", strategy.shape.to_string() + experts_of(ranks, config, engine), strategy.row.name,
      stages(config) > 1 ? fmt::format(", {} stages by {}", stages(config), config.schedule) : "", config.global_batch,
      data_ranks(ranks, config), data_ranks(ranks, config) == 1 ? "" : "s", config.micro_batches,
      config.micro_batches == 1 ? "" : "es", samples_of_pass(ranks, config), elements,
      name_of(config.precision.parameter), name_of(config.precision.gradient), name_of(config.precision.output),
      name_of(config.recompute), name_of(config.determinism), config.seed,
      mib(static_cast<std::size_t>(memory.total())), mib(held.of(Purpose::Parameter)), mib(held.of(Purpose::Gradient)),
      mib(held.of(Purpose::Optimizer)), mib(held.of(Purpose::Underway)), mib(held.of(Purpose::Residual)),
      mib(memory.activation_bytes));
}

}  // namespace sinew::parallel
