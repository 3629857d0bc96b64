#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/planner/costs/cluster_spec.hpp>
#include <sinew/parallel/planner/model/activations.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// A place beside a rank's own memory: the host's memory for a device, or a file (parallel/offload).
struct PlannedStore {
  double bytes_per_s = 0;  ///< of the copies of one rank, each way. 0: there is no store
  std::int64_t bytes = 0;  ///< the room for one rank; 0: no limit
  /// Activations that are on their way to the store and back at a time (ActivationOffload::write_bytes and
  /// read_ahead_bytes).
  std::int64_t window_bytes = std::int64_t{128} << 20;
};

/// Layers that are recomputed otherwise than JobConfig::recompute says. Names are those of the policies of modules:
/// "layers", or "layers.3". The longest name counts.
/// Source: Recomputation::Exception (modules/recomputation.hpp).
struct RecomputedLayers {
  std::string name{};
  Recompute recompute = Recompute::None;
};

/// The question that a plan answers: a model, a cluster, and a batch.
struct PlanQuestion {
  ModelShape model{};
  ClusterSpec cluster{};
  std::int64_t sequence = 0;      ///< tokens; 0: the model's context
  std::int64_t global_batch = 0;  ///< sequences of a step; 0: 4 Mi tokens
  Precision precision{DType::BF16, DType::F32, DType::F32};
  AttentionMemory attention = AttentionMemory::Blocks;
  /// The share of the cluster's operations per second that products of matrices reach. Work element by element is
  /// counted separately, by the bytes that it reads and writes. The default reproduces Korthikanti et al., arXiv
  /// 2205.05198, table 5 (docs/planner.md).
  double efficiency = 0.65;
  /// true: the search also tries ZeRO++ beside ZeRO 3: int8 weights, int4 gradients, and the ranks of a host as near
  /// ranks. These round what is sent.
  bool zero_plus_plus = false;
  /// true: the training program gathers parameters and sums gradients stage by stage, as the schedule of a pipeline
  /// says (EngineFacts::takes_stage_actions).
  bool stage_actions = false;
  std::vector<RecomputedLayers> recomputed{};
  PlannedStore store{};
  /// Layers whose activations are in the store between their forward and their backward pass: "layers", or "layers.3".
  std::vector<std::string> offloaded_activations{};
  /// true: shards of parameters and gradients, and the optimizer's state, are in the store
  /// (Offload::ParametersAndOptimizer). Layouts then have ZeRO 3.
  bool offloads_shards = false;

  /// The question with defaults filled in.
  /// Errors: InvalidArgument that lists everything that is out of range.
  SINEW_API PlanQuestion complete() const;
  int ranks() const noexcept { return cluster.ranks(); }
  double tokens() const noexcept { return static_cast<double>(global_batch) * static_cast<double>(sequence); }
};

/// The treatment of the activations of each layer.
struct LayerTreatment {
  Recompute recompute = Recompute::None;
  bool is_offloaded = false;
};
SINEW_API std::vector<LayerTreatment> treatment_of_layers(const PlanQuestion& question, Recompute everywhere);

/// The data-parallel ranks of a host that hold different shards under a configuration, for JobConfig::near_ranks. 1:
/// none are on one host, or all are.
SINEW_API int data_ranks_of_host(const PlanQuestion& question, const JobConfig& config);

/// The part of a layer that one rank computes at a time under a configuration.
SINEW_API LayerInput layer_input(const PlanQuestion& question, const JobConfig& config);

}  // namespace sinew::parallel
