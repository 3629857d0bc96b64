#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/memory/far_traffic.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
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

/// The bytes that data parallelism sends in a step, over all far links of a rank.
std::string traffic_of(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const DataStrategy strategy = data_strategy(ranks, config, engine);
  // A pipeline's rank gathers its parameters and sums their gradients once, however many micro-batches there are.
  const std::int64_t passes = stages(config) > 1 ? 1 : config.micro_batches;
  FarTraffic sum =
      far_traffic(engine.parameters(config, {}), strategy.row, strategy.options, strategy.shape, strategy.near, passes);
  if (engine.experts > 0) {
    const DataStrategy of_experts = expert_strategy(ranks, config);
    const FarTraffic more = far_traffic(engine.expert_parameters(config, {}), of_experts.row, of_experts.options,
                                        of_experts.shape, of_experts.near, passes);
    sum.weights += more.weights;
    sum.gradients += more.gradients;
  }
  const std::string between = strategy.near.empty() ? "to other data-parallel ranks"
                                                    : fmt::format("between hosts of {} near ranks", config.near_ranks);
  return fmt::format("{} MiB a step and rank {}: weights {} ({}), gradients {} ({})",
                     mib(static_cast<std::size_t>(sum.total())), between, mib(static_cast<std::size_t>(sum.weights)),
                     name_of(config.weights), mib(static_cast<std::size_t>(sum.gradients)),
                     config.int4_gradients         ? "int4"
                     : config.codec == Codec::None ? "plain"
                                                   : name_of(config.codec));
}

using ExchangeSeconds = std::function<double(const Factorisation&, NodeKind, std::string_view, std::int64_t)>;

std::string explained(const std::vector<DataParameter>& parameters, const DataStrategy& strategy,
                      const ExchangeSeconds& seconds) {
  ExchangePrices prices{.ranks = [&](std::string_view axes) { return strategy.shape.size(axes); }};
  if (seconds)
    prices.seconds = [&](NodeKind kind, std::string_view axes, std::int64_t bytes) {
      return seconds(strategy.shape, kind, axes, bytes);
    };
  const StepPlan plan = plan_step(parameters, strategy.row, strategy.options.step, {}, prices);
  return plan.report.to_string(plan.graph);
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
      "memory     {} MiB a rank: parameters {}, gradients {}, optimizer {}, under way {}, residuals {}, activations "
      "{}\n"
      "traffic    {}",
      ranks, ranks == 1 ? "" : "s", strategy.shape.to_string() + experts_of(ranks, config, engine), strategy.row.name,
      stages(config) > 1 ? fmt::format(", {} stages by {}", stages(config), config.schedule) : "", config.global_batch,
      data_ranks(ranks, config), data_ranks(ranks, config) == 1 ? "" : "s", config.micro_batches,
      config.micro_batches == 1 ? "" : "es", samples_of_pass(ranks, config), elements,
      name_of(config.precision.parameter), name_of(config.precision.gradient), name_of(config.precision.output),
      name_of(config.recompute), name_of(config.determinism), config.seed,
      mib(static_cast<std::size_t>(memory.total())), mib(held.of(Purpose::Parameter)), mib(held.of(Purpose::Gradient)),
      mib(held.of(Purpose::Optimizer)), mib(held.of(Purpose::Underway)), mib(held.of(Purpose::Residual)),
      mib(memory.activation_bytes), traffic_of(ranks, config, engine));
}

std::string describe_exchanges(int ranks, const JobConfig& config, const EngineFacts& engine,
                               const ExchangeSeconds& seconds) {
  std::string text = "exchanges of data parallelism\n" +
                     explained(engine.parameters(config, {}), data_strategy(ranks, config, engine), seconds);
  if (engine.experts > 0)
    text += "exchanges of data parallelism of experts\n" +
            explained(engine.expert_parameters(config, {}), expert_strategy(ranks, config), seconds);
  return text;
}

}  // namespace sinew::parallel
