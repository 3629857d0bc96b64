#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/channels.hpp>

namespace sinew::parallel {
namespace {

/// The action at the other end of a send.
Action receive_of(const Action& send) {
  return send.kind == ActionKind::SendActivation
             ? Action{ActionKind::ReceiveActivation, send.stage + 1, send.micro_batch}
             : Action{ActionKind::ReceiveGradient, send.stage - 1, send.micro_batch};
}

}  // namespace

std::vector<Channel> channels_of(const Inventory& inventory) {
  const PipelineSchedule& schedule = inventory.schedule();
  std::vector<Channel> channels;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> known;
  const auto channel = [&](std::int32_t from, std::int32_t to) {
    const auto [place, is_new] = known.try_emplace({from, to}, channels.size());
    if (is_new) channels.push_back({.from = from, .to = to});
    return place->second;
  };
  std::vector<std::size_t> onward, back;  // by stage before a cut
  for (std::int32_t s = 0; s < schedule.stages(); ++s) {
    const bool cut = is_cut_after(schedule, s);
    onward.push_back(cut ? channel(rank_of(schedule, s), rank_of(schedule, s + 1)) : 0);
    back.push_back(cut ? channel(rank_of(schedule, s + 1), rank_of(schedule, s)) : 0);
  }
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    const Action& a = inventory.action(n);
    const auto stage = static_cast<std::size_t>(a.stage);
    if (a.kind == ActionKind::SendActivation) channels[onward[stage]].sends.push_back(n);
    if (a.kind == ActionKind::ReceiveActivation) channels[onward[stage - 1]].receives.push_back(n);
    if (a.kind == ActionKind::SendGradient) channels[back[stage - 1]].sends.push_back(n);
    if (a.kind == ActionKind::ReceiveGradient) channels[back[stage]].receives.push_back(n);
  }
  return channels;
}

std::string find_disorder(const Inventory& inventory, const std::vector<Channel>& channels) {
  for (const Channel& c : channels) {
    for (std::size_t i = 0; i < c.sends.size(); ++i) {
      const Action& send = inventory.action(c.sends[i]);
      const Action& receive = inventory.action(c.receives[i]);
      if (receive_of(send) != receive)
        return fmt::format("from rank {} to rank {}: message {} is sent as {} and received as {}, expected {}", c.from,
                           c.to, i, to_string(send), to_string(receive), to_string(receive_of(send)));
    }
  }
  return {};
}

}  // namespace sinew::parallel
