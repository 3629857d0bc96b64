#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/modules/models/job_groups.hpp>

namespace sinew::parallel {

LayerGroup JobGroups::layers(const JobConfig& config, Blas& blas) const {
  return {.tensor = CallGroup(*tensor),
          .blas = &blas,
          .sequence_parallel = config.sequence_parallel,
          .decomposed = config.decomposed,
          .invariant = config.determinism == Determinism::LayoutInvariant};
}

int JobGroups::context_rank() const {
  const GroupPlace heads(*head_sharers), around(*ring);
  return around.rank * heads.ranks + heads.rank;
}

JobGroups groups_of(Job& job) {
  JobGroups all{
      .tensor = &job.tensor(), .head_sharers = &job.head_sharers(), .ring = &job.ring(), .context = &job.context()};
  if (!job.has_experts()) return all;
  all.experts = {&job.expert_ranks(), &job.expert_tensor(), job.expert_hosts()};
  all.sequences = &job.sequence_ranks();
  return all;
}

PlannedGroups::PlannedGroups(const JobConfig& config, const RankPlace& place) {
  const LayoutSizes& sizes = config.layout;
  const int sharers = parallel::head_sharers(config);
  tensor_ = Communicator::planned(place.tp, sizes.tp);
  head_sharers_ = Communicator::planned(place.cp % sharers, sharers);
  ring_ = Communicator::planned(place.cp / sharers, sizes.cp / sharers);
  context_ = Communicator::planned(place.cp, sizes.cp);
  experts_ = Communicator::planned(place.ep, sizes.ep);
  expert_tensor_ = Communicator::planned(place.etp, sizes.etp);
  sequences_ = Communicator::planned(place.cp * sizes.tp + place.tp, sizes.cp * sizes.tp);
}

JobGroups PlannedGroups::groups() {
  return {.tensor = &tensor_,
          .head_sharers = &head_sharers_,
          .ring = &ring_,
          .context = &context_,
          .experts = {&experts_, &expert_tensor_},
          .sequences = &sequences_};
}

}  // namespace sinew::parallel
