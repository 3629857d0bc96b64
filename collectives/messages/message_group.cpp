#include <algorithm>
#include <exception>
#include <utility>

#include <sinew/collectives/messages/message_group.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/operation.hpp>

namespace sinew {

MessageGroups::Group& MessageGroups::take() {
  for (const auto& group : groups_) {
    if (group->call == nullptr) return *group;
  }
  return *groups_.emplace_back(std::make_unique<Group>());
}

void MessageGroups::start(PendingCall& call, std::span<const Message> messages, const Post& post) {
  Group& group = take();
  while (group.parts.size() < messages.size()) group.parts.emplace_back().fire = &MessageGroups::fired;
  group.call = &call;
  group.used = group.left = messages.size();
  group.first_open = 0;
  group.failure = {};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Part& part = group.parts[i];
    part.group = &group;
    part.peer = messages[i].peer;
    part.over = false;
    part.status = {};
    part.note = 0;
    part.make<Operation>().stage = Stage::Finished;  // as long as no transport has it
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Part& part = group.parts[i];
    try {
      post(messages[i], part);
    } catch (const std::exception& e) {  // others are on their way already
      part.finish(status_of(e));
    }
  }
}

void MessageGroups::fired(Completion& completion) noexcept {
  auto& part = static_cast<Part&>(completion);
  Group& group = *part.group;
  part.over = true;
  if (!part.status.ok() && group.failure.ok()) {
    group.failure = part.status;
    group.failed_peer = part.peer;
  }
  if (--group.left > 0) {
    while (group.parts[group.first_open].over) ++group.first_open;
    group.call->peer = group.parts[group.first_open].peer;
    return;
  }
  PendingCall& call = *std::exchange(group.call, nullptr);
  if (!group.failure.ok()) call.peer = group.failed_peer;
  call.finish(std::move(group.failure));
}

bool MessageGroups::cancel(const PendingCall& call,
                           const std::function<void(int peer, Completion& part)>& cancel_part) {
  const auto at = std::ranges::find_if(groups_, [&](const auto& g) { return g->call == &call; });
  if (at == groups_.end()) return false;
  Group& group = **at;
  for (std::size_t i = 0; i < group.used; ++i) {
    if (!group.parts[i].over) cancel_part(group.parts[i].peer, group.parts[i]);
  }
  return true;
}

}  // namespace sinew
