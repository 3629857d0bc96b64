#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/dependencies.hpp>

namespace sinew::parallel {
namespace {

/// For each send of a channel the receive that it waits for; -1: none.
std::vector<std::int32_t> room_needs(const Inventory& inventory, const std::vector<Channel>& channels,
                                     std::optional<std::int32_t> most_under_way) {
  std::vector<std::int32_t> needs(static_cast<std::size_t>(inventory.count()), -1);
  if (!most_under_way) return needs;
  const auto lead = static_cast<std::size_t>(*most_under_way);
  for (const Channel& c : channels) {
    for (std::size_t i = lead; i < c.sends.size(); ++i)
      needs[static_cast<std::size_t>(c.sends[i])] = c.receives[i - lead];
  }
  return needs;
}

}  // namespace

Dependencies::Dependencies(const Inventory& inventory, const std::vector<Channel>& channels,
                           std::optional<std::int32_t> most_under_way, bool messages)
    : inventory_(inventory) {
  const std::vector<std::int32_t> room = room_needs(inventory, channels, most_under_way);
  begin_.reserve(room.size() + 1);
  needs_.reserve(3 * room.size());
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    begin_.push_back(needs_.size());
    add_needs_of(inventory.action(n), messages);
    if (room[static_cast<std::size_t>(n)] >= 0) need(room[static_cast<std::size_t>(n)]);
  }
  begin_.push_back(needs_.size());
}

void Dependencies::add_needs_of(const Action& a, bool messages) {
  const std::int32_t s = a.stage, m = a.micro_batch;
  switch (a.kind) {
    case ActionKind::Forward:
      if (s == 0) return;
      if (messages && is_cut_after(inventory_.schedule(), s - 1)) {
        need(inventory_.find(ActionKind::ReceiveActivation, s, m));
        need(inventory_.find(ActionKind::SendActivation, s - 1, m));
      } else {
        need(inventory_.find(ActionKind::Forward, s - 1, m));
      }
      return;
    case ActionKind::Backward:
    case ActionKind::InputGradient: {
      const std::int32_t again = inventory_.find(ActionKind::Recompute, s, m);
      need(again >= 0 ? again : inventory_.find(ActionKind::Forward, s, m));
      add_gradient_of_output(a, messages);
      return;
    }
    case ActionKind::WeightGradient: return need(inventory_.find(ActionKind::InputGradient, s, m));
    case ActionKind::Recompute:
    case ActionKind::SendActivation: return need(inventory_.find(ActionKind::Forward, s, m));
    case ActionKind::SendGradient: return need(inventory_.find_input_gradient(s, m));
    case ActionKind::ReceiveActivation:
    case ActionKind::ReceiveGradient:
    case ActionKind::Unshard:
    case ActionKind::Reshard:
    case ActionKind::Reduce: return;  // their place among the rank's actions says everything
  }
}

void Dependencies::add_gradient_of_output(const Action& a, bool messages) {
  const std::int32_t s = a.stage, m = a.micro_batch;
  if (s + 1 == inventory_.schedule().stages()) return;
  if (messages && is_cut_after(inventory_.schedule(), s)) {
    need(inventory_.find(ActionKind::ReceiveGradient, s, m));
    need(inventory_.find(ActionKind::SendGradient, s + 1, m));
  } else {
    need(inventory_.find_input_gradient(s + 1, m));
  }
}

}  // namespace sinew::parallel
