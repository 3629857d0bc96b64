#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// Where a rank is among those that share layers, sequences and a model's depth, and among those that share experts.
struct RankPlace {
  int tp = 0;   ///< tensor-parallel index
  int cp = 0;   ///< context-parallel index, all levels together
  int pp = 0;   ///< pipeline index
  int ep = 0;   ///< expert-parallel index
  int etp = 0;  ///< index inside an expert
};

/// How far sums can be layout-invariant (invariant/leaves.hpp).
struct InvariantFacts {
  std::string why_not = "this engine has no such sums";  ///< empty: it has them
  int most_tp = 1;           ///< ranks that share layers, and heads: all have as many leaf blocks
  std::int64_t most_cp = 1;  ///< ranks that share a sample, likewise
};

/// What the engine that computes says of itself, before anything is made.
struct EngineFacts {
  std::vector<std::string> axes{"dp"};  ///< that it can be cut along: of tp, cp, dp, pp, ep, etp
  int most_tp = 1;                      ///< parts that layers can be cut into: attention heads
  int most_pp = 1;                      ///< stages that it can be cut into: blocks
  std::int64_t most_cp = 1;             ///< parts that a sample can be cut into: positions of a sequence
  bool sequence_parallel = false;       ///< it can have its rows cut between layers
  /// What the ranks of a place have: elements of their own.
  std::function<std::vector<DataParameter>(const JobConfig&, const RankPlace&)> parameters;
  /// Of a pass over so many samples: activations and scratch at most. Empty: not known, counts as nothing.
  std::function<std::size_t(const JobConfig&, std::int64_t samples, const RankPlace&)> activation_bytes;
  /// What else has to be the same on all ranks: the model's shape, the data. Compared before anything is made.
  std::string identity;
  /// It gathers parameters and sums gradients stage by stage, where a schedule says when.
  bool takes_stage_actions = false;
  std::string outer_unit;  ///< DataOptions::outer_unit, of a model that no pipeline cuts
  InvariantFacts invariant{};
  std::int64_t experts = 0;   ///< of a layer that has such; 0: none has
  std::int64_t most_etp = 1;  ///< parts that each of them can be cut into
  /// As `parameters`, of experts: what ep spreads, etp cuts, and edp has copies of. The other ones are dense.
  std::function<std::vector<DataParameter>(const JobConfig&, const RankPlace&)> expert_parameters;
};

}  // namespace sinew::parallel
