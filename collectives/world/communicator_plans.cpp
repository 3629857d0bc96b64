#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/selection/prove.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Plans of a communicator that nobody keeps, before they are dropped: programs whose sizes never repeat must not grow.
constexpr std::size_t kMostPlans = 512;

}  // namespace

std::unique_ptr<ReadyPlan> CommunicatorState::make_plan(const CollectiveDesc& desc) {
  if (plans_.idle() >= kMostPlans) drop_idle_plans();
  auto plan = std::make_unique<ReadyPlan>();
  plan->owner = this;
  plan->desc = desc;
  plan->counts.assign(desc.counts.begin(), desc.counts.end());
  plan->displacements.assign(desc.displacements.begin(), desc.displacements.end());
  plan->desc.counts = plan->counts;
  plan->desc.displacements = plan->displacements;
  plan->selection = selector->select(desc);
  if (world->options.config.verify_plans && plan->selection.recipe && group.rank == 0) {
    if (Status proof = prove(*plan->selection.recipe, desc, group.size()); !proof.ok()) {
      world->control->end(*this, proof);
      throw Error(proof.code(), std::string(proof.message()));
    }
  }
  if (reduces(desc.collective)) {
    plan->reducer = desc.op == ReduceOp::User ? *desc.user : reducer_for(desc.op, desc.dtype);
    if (desc.op == ReduceOp::User) {
      plan->desc.user = &plan->reducer;
    } else {
      plan->many = many_reducer_for(desc.op, desc.dtype);
    }
    if (desc.op == ReduceOp::Average) plan->scaler = scaler_for(desc.dtype, 1.0 / group.size());
    if (desc.op == ReduceOp::PreMulSum) plan->scaler = scaler_for(desc.dtype, desc.pre_multiply);
  }
  return plan;
}

Executable& CommunicatorState::executable(ReadyPlan& plan, bool in_place) {
  auto& made = plan.executable[in_place ? 1 : 0];
  if (!made) {
    Program program = plan.selection.recipe->build(plan.desc, group.rank, group.size(), in_place);
    made = Executable::make(plan.desc, std::move(program), plan.selection.cutting, [&](int peer) {
      const auto& name = selector->transport_between(plan.selection.transports, group.rank, peer);
      return &world->endpoint(group.world_ranks[static_cast<std::size_t>(peer)], name);
    });
    made->group = &group;
  }
  return *made;
}

std::shared_ptr<ReadyPlan> CommunicatorState::ready_plan(const CollectiveDesc& desc) {
  const auto held = world->hold();
  return plans_.share(desc, fingerprint_of(desc), [&] { return make_plan(desc); });
}

void CommunicatorState::retire(ReadyPlan& plan) noexcept {
  plan.owner = nullptr;
  for (auto& e : plan.executable) {
    if (e) world->executor.forget(*e);
    e.reset();
  }
}

void CommunicatorState::drop_idle_plans() {
  std::vector<const ReadyPlan*> in_use{staged_plan_};
  world->calls->for_each_pending([&](const PendingCall& op) {
    if (op.owner == this && !is_message(op)) in_use.push_back(op.notes.plan);
  });
  plans_.drop_idle(in_use, [this](ReadyPlan& plan) { retire(plan); });
}

}  // namespace sinew
