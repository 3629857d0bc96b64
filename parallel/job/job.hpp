#pragma once

// A training job from one configuration. The room holds the configuration and its rules, what an engine says about
// itself, predictions of memory, and the job itself. It may include the mesh, data parallelism with its sub-rooms,
// pipelines with theirs, and the room `common`. Planners include it.

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// A training job, made from one configuration in this order, each on all ranks alike:
///   1. agreement   all ranks have the same configuration
///   2. rules       those of job_rules.hpp, before anything is made
///   3. mesh        the communicators of the layout
///   4. strategy    data parallelism of dense parameters and of experts: step graphs and memory
///   5. values      initial values of parameters; each rank asks for the elements that it holds
/// The engine keys its random numbers by names and element numbers (common/keyed_random.hpp), not by ranks. Then the
/// initial values do not depend on the layout.
/// Thread:   the World's.
/// Lifetime: ends before the World; `engine` is not kept.
/// Errors:   InvalidArgument on all ranks alike: the first rank whose configuration is another one; all rules that are
///           broken, with their nearest fixes. Also what the constructors of Mesh and DataParallel throw. An exception
///           from a function of `engine` ends the World (Communicator::abort_world_by_exception) and is rethrown.
class SINEW_API Job {
 public:
  /// of_experts: initial values of EngineFacts::expert_parameters, if there are experts.
  Job(World& world, const JobConfig& config, const EngineFacts& engine, const InitialValues& initial,
      const InitialValues& of_experts = {}, const std::source_location& where = std::source_location::current());

  const JobConfig& config() const noexcept { return config_; }
  Mesh& mesh() noexcept { return *mesh_; }
  DataParallel& data() noexcept { return *data_; }
  /// The ranks over which gradients, and losses, are summed.
  Communicator& summing();
  /// The ranks that share layers.
  Communicator& tensor() { return mesh_->along("tp"); }
  /// The ranks that share heads of a sample (Ulysses). It is empty if cp has one level, which ContextAttention takes as
  /// a group of one rank. ring(): the ranks with the same heads. context(): both together.
  Communicator& head_sharers() { return head_sharers_.empty() ? alone_ : mesh_->along(head_sharers_); }
  Communicator& ring() { return mesh_->along(ring_); }
  /// Both together.
  Communicator& context() { return mesh_->along(context_axes_); }
  /// The schedule of the pipeline, for a PipelineRunner. It has actions on parameters if the engine takes them and says
  /// to which stage each unit belongs.
  /// Errors: as schedule_of(). InvalidArgument if there is one stage.
  PipelineSchedule schedule() const;
  /// Why the schedule has these actions on parameters. Empty: it has none.
  const std::string& why_sharded() const noexcept { return why_sharded_; }
  /// The ranks of this rank's pipeline.
  Communicator& pipeline() { return mesh_->along("pp"); }
  /// This rank's place among the ranks that share layers, samples, depth and experts.
  RankPlace place() const;
  /// Lists what the optimizer of exchanges did to the steps of data() and experts(): DataParallel::explain().
  std::string explain();
  /// Returns whether the engine has experts. The functions below about experts may be called only then.
  bool has_experts() const noexcept { return experts_ != nullptr; }
  /// Data parallelism of experts, with a step of its own besides that of data().
  DataParallel& experts() { return *experts_; }
  /// The same ranks arranged for experts: etp, ep, edp, pp.
  Mesh& expert_mesh() { return *expert_mesh_; }
  /// The ranks over which experts are spread. expert_tensor(): the ranks that share an expert.
  Communicator& expert_ranks() { return expert_mesh_->along("ep"); }
  Communicator& expert_tensor() { return expert_mesh_->along("etp"); }
  /// The hosts of expert_ranks(), by rank there.
  const std::vector<int>& expert_hosts() const noexcept { return expert_hosts_; }
  /// The ranks that have different tokens of the same sequences.
  Communicator& sequence_ranks() { return config_.layout.tp > 1 ? mesh_->along("tp-" + context_axes_) : context(); }
  /// This rank's place among the ranks that see different samples. sample_ranks(): how many there are.
  int sample_index() const { return mesh_->index(sample_axes_); }
  int sample_ranks() const { return mesh_->size(sample_axes_); }
  /// Samples in a pass.
  std::int64_t samples_of_pass() const noexcept { return samples_of_pass_; }

 private:
  JobConfig config_;
  std::unique_ptr<Mesh> mesh_;  // data_ keeps its address
  std::unique_ptr<DataParallel> data_;
  std::unique_ptr<Mesh> expert_mesh_;
  std::unique_ptr<DataParallel> experts_;
  std::vector<int> expert_hosts_;
  Communicator alone_;
  std::string sum_axes_, sample_axes_, context_axes_, head_sharers_, ring_;
  std::int64_t samples_of_pass_ = 0;
  std::optional<PipelineSchedule> sharded_;  // with actions on parameters
  std::string why_sharded_;
};

}  // namespace sinew::parallel
