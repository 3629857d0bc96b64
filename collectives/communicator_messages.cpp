#include <chrono>

#include <fmt/format.h>

#include <sinew/collectives/arguments.hpp>
#include <sinew/collectives/communicator_state.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// How long a message that was taken back may take to end.
constexpr auto kEndsWithin = std::chrono::seconds(30);

}  // namespace

StagedMessages& CommunicatorState::staged_messages() {
  if (world->device_runtime == nullptr) throw Error(Code::Unavailable, "device memory: " + world->no_device);
  if (!staged_messages_) {
    staged_messages_ = std::make_unique<StagedMessages>(*world->device_runtime, world->device);
    world->engine->add(*staged_messages_);
  }
  return *staged_messages_;
}

Work CommunicatorState::start_message(const Message& message, const CallOptions& options) {
  const Collective kind = message.sends ? Collective::Send : Collective::Recv;
  arguments::require_codec({.collective = kind, .codec = options.codec});
  const auto held = world->hold();
  return Work(open_message(message, options));
}

PendingCall& CommunicatorState::open_message(const Message& message, const CallOptions& options) {
  const Collective kind = message.sends ? Collective::Send : Collective::Recv;
  require_own_device(kind, message, options);
  const std::uint64_t bytes = message.memory.bytes;
  PendingCall& op = begin(fingerprint_of({.collective = kind, .count = bytes}), message.peer, bytes, options);
  try {
    launch_message(message, options.after, op);
  } catch (...) {
    give_up(op);
    throw;
  }
  world->posted(options.waits_at_once);
  return op;
}

Status CommunicatorState::pass_message(const Message& message, CallOptions options, Deadline deadline) {
  options.waits_at_once = true;
  PendingCall* call = nullptr;
  {
    const auto held = world->hold();
    call = &open_message(message, options);
  }
  Work work(*call);
  if (Status status = work.wait(deadline); status.code() != Code::Pending) return status;
  {
    const auto held = world->hold();
    if (!work.done()) cancel_message(message.peer, *call);
  }
  return work.wait(Deadline::after(kEndsWithin));
}

Work CommunicatorState::start_group(std::span<const Message> messages, const CallOptions& options) {
  arguments::require_codec({.collective = Collective::SendRecv, .codec = options.codec});
  std::uint64_t bytes = 0;
  for (const Message& m : messages) {
    require_own_device(Collective::SendRecv, m, options);
    bytes += m.memory.bytes;
  }
  const auto held = world->hold();
  PendingCall& op = begin(fingerprint_of({.collective = Collective::SendRecv, .count = bytes}), messages.front().peer,
                          bytes, options);
  try {
    groups_.start(op, messages, [&](const Message& m, Completion& done) { launch_message(m, options.after, done); });
  } catch (...) {
    give_up(op);
    throw;
  }
  world->posted(options.waits_at_once);
  return Work(op);
}

AnyReceives& CommunicatorState::any_receives() {
  if (!any_receives_) {
    const auto holds = [this](int rank, std::uint32_t tag) {
      Endpoint* endpoint = endpoint_to(rank);
      return endpoint != nullptr && endpoint->holds(tag_of(tag));
    };
    const auto launch = [this](const Message& message, StreamRef after, PendingCall& call) {
      launch_message(message, after, call);
    };
    const auto& rails = world->fabrics.empty() ? std::span<const std::unique_ptr<Transport>>()
                                               : world->fabrics.front().fabric->transports();
    const int descriptor = rails.empty() ? -1 : rails.front()->wake_descriptor();
    any_receives_ = std::make_unique<AnyReceives>(group.size(), descriptor, holds, launch);
    world->engine->add(*any_receives_);
  }
  return *any_receives_;
}

Work CommunicatorState::start_any(const Message& message, const CallOptions& options) {
  const std::uint64_t bytes = message.memory.bytes;
  require_own_device(Collective::Recv, message, options);
  const auto held = world->hold();
  PendingCall& op = begin(fingerprint_of({.collective = Collective::Recv, .count = bytes}), -1, bytes, options);
  try {
    ended.ok() ? any_receives().add(message, options.after, op) : op.finish(ended);
  } catch (...) {
    give_up(op);
    throw;
  }
  world->posted(options.waits_at_once);
  return Work(op);
}

void CommunicatorState::require_own_device(Collective call, const Message& message, const CallOptions& options) const {
  if (message.memory.place.kind == MemoryKind::Device) [[unlikely]]
    require_own_device(name_of(call), message.memory.place, options.after);
}

Endpoint* CommunicatorState::endpoint_to(int peer) {
  Endpoint*& known = endpoints_[static_cast<std::size_t>(peer)];
  if (known == nullptr && peer == group.rank) {
    known = &world->self_link();
  } else if (known == nullptr) [[unlikely]] {
    const std::string& name = selector->transport_between(selector->cheapest(), group.rank, peer);
    if (!name.empty()) known = &world->endpoint(group.world_ranks[static_cast<std::size_t>(peer)], name);
  }
  return known;
}

bool CommunicatorState::takes_device_memory(int peer) const {
  if (peer == group.rank) return false;
  const std::string& name = selector->transport_between(selector->cheapest(), group.rank, peer);
  return world->rail(name)->capabilities().device_memory;
}

void CommunicatorState::launch_message(const Message& message, StreamRef after, Completion& done) {
  if (!ended.ok()) return done.finish(ended);
  if (endpoint_to(message.peer) == nullptr) {
    return done.finish(Status(
        Code::Unavailable,
        fmt::format("no transport leads from {} to {}", group.rank_text(group.rank), group.rank_text(message.peer))));
  }
  const bool device = message.memory.place.kind == MemoryKind::Device;
  const bool direct = device && takes_device_memory(message.peer);
  if (device && !direct) {
    const auto post = [this, message](Buffer pinned, Completion& copied) -> Endpoint& {
      post_message({message.sends, pinned, message.peer, message.tag}, copied);
      return *endpoint_to(message.peer);
    };
    StagedMessages& staged = staged_messages();
    message.sends ? staged.send(message.memory, after, post, done) : staged.recv(message.memory, after, post, done);
  } else if ((direct && after.device >= 0) || (staged_messages_ && staged_messages_->must_queue(message.sends))) {
    const auto launch = [this, &done, message] { ended.ok() ? post_message(message, done) : done.finish(ended); };
    staged_messages().queue(message.sends, direct ? after : StreamRef{}, launch, done);
  } else {
    post_message(message, done);
  }
}

Tag CommunicatorState::tag_of(std::uint32_t users) const noexcept {
  return Tag::user(group.generation, static_cast<std::uint16_t>(group.communicator + 1), users);
}

void CommunicatorState::post_message(const Message& message, Completion& done) {
  const Tag full = tag_of(message.tag);
  // A message of an earlier communicator that had the same id is refused, not taken.
  if (message.sends) {
    endpoint_to(message.peer)->send(message.memory, nullptr, full, group.identity, done);
  } else {
    done.note = group.identity;
    endpoint_to(message.peer)->recv({message.memory, nullptr, {}}, nullptr, full, done);
  }
}

void CommunicatorState::cancel_message(int peer, Completion& done) {
  if (staged_messages_ && staged_messages_->cancel(done)) return;
  // Without an endpoint no transport has it, and none is made for that: who launches it finds the communicator ended.
  if (Endpoint* known = endpoints_[static_cast<std::size_t>(peer)]) known->cancel(done);
}

}  // namespace sinew
