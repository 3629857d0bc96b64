#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// The place of a rank among the ranks that share layers, sequences and a model's depth, and among those that share
/// experts.
struct RankPlace {
  int tp = 0;   ///< tensor-parallel index
  int cp = 0;   ///< context-parallel index, all levels together
  int pp = 0;   ///< pipeline index
  int ep = 0;   ///< expert-parallel index
  int etp = 0;  ///< index inside an expert
};

/// The extent to which an engine's sums can be layout-invariant (invariant/leaves.hpp).
struct InvariantFacts {
  std::string why_not = "this engine has no such sums";  ///< empty: it has such sums
  /// The most ranks that may share layers and heads. All of them have equally many leaf blocks.
  int most_tp = 1;
  std::int64_t most_cp = 1;  ///< the most ranks that may share a sample, likewise
};

/// EngineFacts::stage_of_unit of parameters that several stages use, such as a table that embeds and predicts tokens.
inline constexpr std::int32_t kSharedByStages = -1;

/// An engine's description of itself, before anything is made.
struct EngineFacts {
  std::vector<std::string> axes{"dp"};  ///< the axes along which it can be cut, out of tp, cp, dp, pp, ep, etp
  int most_tp = 1;                      ///< parts that layers can be cut into: attention heads
  int most_pp = 1;                      ///< stages that it can be cut into: blocks
  std::int64_t most_cp = 1;             ///< parts that a sample can be cut into: positions of a sequence
  bool sequence_parallel = false;       ///< it can cut rows between layers
  /// The device on which the engine computes (DataParallelOptions::device). {}: the host.
  ComputeDevice device{};
  /// The parameters of a rank at that place, with the number of elements that the rank has.
  std::function<std::vector<DataParameter>(const JobConfig&, const RankPlace&)> parameters{};
  /// The most bytes of activations and scratch in a pass over so many samples. Empty: unknown, counts as 0.
  std::function<std::size_t(const JobConfig&, std::int64_t samples, const RankPlace&)> activation_bytes{};
  /// Whatever else must be the same on all ranks, such as the model's shape and the data. It is compared before
  /// anything is made.
  std::string identity{};
  /// true: the engine gathers parameters and sums gradients stage by stage when a schedule says so.
  bool takes_stage_actions = false;
  /// The stage of the pipeline to which a unit of `parameters` or `expert_parameters` belongs. With it and
  /// takes_stage_actions, data parallelism of the job follows the schedule. The engine then calls unshard(), reshard()
  /// and reduce() of DataParallel for the units of a stage. A unit that several stages use is kSharedByStages: it is
  /// gathered before all stages. It is summed and freed after them.
  std::function<std::int32_t(const JobConfig&, const std::string& unit)> stage_of_unit{};
  std::string outer_unit{};  ///< DataOptions::outer_unit, for a model without a pipeline
  InvariantFacts invariant{};
  std::int64_t experts = 0;   ///< the number of experts in a layer that has experts; 0: no layer has experts
  std::int64_t most_etp = 1;  ///< the most parts into which an expert can be cut
  /// As `parameters`, for experts. Experts are spread over ep. Each of them is cut along etp, and has copies along edp.
  /// If there are experts, `parameters` returns dense parameters only.
  std::function<std::vector<DataParameter>(const JobConfig&, const RankPlace&)> expert_parameters{};
};

}  // namespace sinew::parallel
