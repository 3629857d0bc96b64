#pragma once

#include <cstdint>

#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/planner/costs/cluster_spec.hpp>
#include <sinew/parallel/planner/model/activations.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// Of what a plan is made.
struct PlanQuestion {
  ModelShape model;
  ClusterSpec cluster;
  std::int64_t sequence = 0;      ///< tokens; 0: the model's context
  std::int64_t global_batch = 0;  ///< sequences of a step; 0: 4 Mi tokens
  Precision precision{DType::BF16, DType::F32, DType::F32};
  AttentionMemory attention = AttentionMemory::Blocks;
  /// Of the cluster's operations per second, what products of matrices get. What is done element by element is counted
  /// apart, by what it reads and writes. The default is what makes Korthikanti et al., arXiv 2205.05198, table 5, come
  /// out (docs/planner.md).
  double efficiency = 0.65;

  /// With what was left open.
  /// Errors: InvalidArgument that lists everything which is out of range.
  SINEW_API PlanQuestion complete() const;
  int ranks() const noexcept { return cluster.ranks(); }
  double tokens() const noexcept { return static_cast<double>(global_batch) * static_cast<double>(sequence); }
};

/// The part of a question that a layer sees under a configuration.
SINEW_API LayerInput layer_input(const PlanQuestion& question, const JobConfig& config);

}  // namespace sinew::parallel
