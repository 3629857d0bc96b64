#pragma once

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>

namespace sinew::parallel {

/// The communicators of a job with which the modules of its model are made.
/// Lifetime: the communicators outlive the modules.
struct JobGroups {
  Communicator* tensor = nullptr;        ///< the ranks that share layers
  Communicator* head_sharers = nullptr;  ///< ContextGroup
  Communicator* ring = nullptr;          ///< ContextGroup
  Communicator* context = nullptr;       ///< head_sharers and ring together
  ExpertRanks experts{};
  Communicator* sequences = nullptr;  ///< the ranks that have different tokens of the same sequences

  /// The surroundings of layers, as the configuration of the job has them.
  SINEW_API LayerGroup layers(const JobConfig& config, Blas& blas) const;
  ContextGroup contexts() const { return {CallGroup(*head_sharers), CallGroup(*ring)}; }
  /// This rank's number in `context`.
  SINEW_API int context_rank() const;
};

/// Lifetime: the result is valid as long as the job.
SINEW_API JobGroups groups_of(Job& job);

/// The groups of a rank that need not exist (Communicator::planned). Modules that are made with them have the
/// parameters and the sizes of that rank. So a model itself can answer for EngineFacts.
class SINEW_API PlannedGroups {
 public:
  PlannedGroups(const JobConfig& config, const RankPlace& place);
  JobGroups groups();

 private:
  Communicator tensor_, head_sharers_, ring_, context_, experts_, expert_tensor_, sequences_;
};

}  // namespace sinew::parallel
