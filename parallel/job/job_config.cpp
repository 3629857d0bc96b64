#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>

namespace sinew::parallel {

std::string_view name_of(Recompute recompute) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"none", "selective", "full"};
  return kNames[static_cast<std::size_t>(recompute)];
}

int data_ranks(int ranks, const JobConfig& config) noexcept { return ranks < 1 ? 0 : dp_of({ranks, config.layout}); }

std::string row_name(const JobConfig& config) {
  if (config.zero == 0) return "ddp";
  return config.zero == 3 && config.replicas > 1 ? "hsdp" : fmt::format("zero{}", config.zero);
}

int head_sharers(const JobConfig& config) noexcept {
  return config.layout.cp_levels.size() > 1 ? config.layout.cp_levels.front() : 1;
}

int stages(const JobConfig& config) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const std::int64_t all = std::int64_t{config.layout.pp} * config.virtual_stages;
  return static_cast<int>(std::clamp(all, -kMost, kMost));
}

std::int64_t samples_of_pass(int ranks, const JobConfig& config) noexcept {
  const int data = data_ranks(ranks, config);
  return data == 0 || config.micro_batches < 1 ? 0 : config.global_batch / data / config.micro_batches;
}

std::string to_string(const JobConfig& config) {
  const LayoutSizes& l = config.layout;
  return fmt::format(
      "tp {}{}{} cp {} dp {} pp {} ep {} etp {}, order {}, cp_levels {}\n"
      "schedule {}, virtual stages {}\n"
      "zero {}, replicas {}, reshard after {}, prefetch {} B, codec {}{}, weights {}, gradients {}, near ranks {}\n"
      "parameters {}, gradients {}, outputs {}, recompute {}\n"
      "global batch {}, micro-batches {}\n"
      "determinism {}, seed {}, memory {} B",
      l.tp, config.sequence_parallel ? " sequence-parallel" : "", config.decomposed ? " decomposed" : "", l.cp, l.dp,
      l.pp, l.ep, l.etp, l.order, fmt::join(l.cp_levels, ","), config.schedule, config.virtual_stages, config.zero,
      config.replicas, config.reshard == Reshard::AfterForward ? "forward" : "backward", config.prefetch_bytes,
      name_of(config.codec), config.error_feedback ? " with feedback" : "", name_of(config.weights),
      config.int4_gradients ? "int4" : "plain", config.near_ranks, name_of(config.precision.parameter),
      name_of(config.precision.gradient), name_of(config.precision.output), name_of(config.recompute),
      config.global_batch, config.micro_batches, name_of(config.determinism), config.seed, config.memory_bytes);
}

}  // namespace sinew::parallel
