#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/user_messages.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// How long a message that was taken back may take to end.
constexpr auto kEndsWithin = std::chrono::seconds(30);

}  // namespace

UserMessages::UserMessages(CommunicatorState& of)
    : of_(of), endpoints_(of.group.world_ranks.size()), direct_(of.group.world_ranks.size()) {}

StagedMessages& UserMessages::staged() {
  if (of_.world->device_runtime == nullptr) throw Error(Code::Unavailable, "device memory: " + of_.world->no_device);
  if (!staged_) {
    staged_ = std::make_unique<StagedMessages>(*of_.world->device_runtime, of_.world->device);
    of_.world->engine->add(*staged_);
  }
  return *staged_;
}

Work UserMessages::start(const Message& message, const CallOptions& options) {
  const Collective kind = message.sends ? Collective::Send : Collective::Recv;
  arguments::require_codec({.collective = kind, .codec = options.codec});
  const auto held = of_.world->hold();
  return Work(open(message, options));
}

PendingCall& UserMessages::open(const Message& message, const CallOptions& options) {
  const Collective kind = message.sends ? Collective::Send : Collective::Recv;
  require_own_device(kind, message, options);
  const std::uint64_t bytes = message.memory.bytes;
  PendingCall& op = of_.begin(fingerprint_of({.collective = kind, .count = bytes}), message.peer, bytes, options);
  try {
    launch(message, options.after, op);
  } catch (...) {
    of_.give_up(op);
    throw;
  }
  of_.world->posted(options.waits_at_once);
  return op;
}

Status UserMessages::pass(const Message& message, CallOptions options, Deadline deadline) {
  options.waits_at_once = true;
  PendingCall* call = nullptr;
  {
    const auto held = of_.world->hold();
    call = &open(message, options);
  }
  Work work(*call);
  if (Status status = work.wait(deadline); status.code() != Code::Pending) return status;
  {
    const auto held = of_.world->hold();
    if (!work.done()) cancel(message.peer, *call);
  }
  return work.wait(Deadline::after(kEndsWithin));
}

Work UserMessages::start_group(std::span<const Message> messages, const CallOptions& options) {
  arguments::require_codec({.collective = Collective::SendRecv, .codec = options.codec});
  std::uint64_t bytes = 0;
  for (const Message& m : messages) {
    require_own_device(Collective::SendRecv, m, options);
    bytes += m.memory.bytes;
  }
  const auto held = of_.world->hold();
  PendingCall& op = of_.begin(fingerprint_of({.collective = Collective::SendRecv, .count = bytes}),
                              messages.front().peer, bytes, options);
  try {
    groups_.start(op, messages, [&](const Message& m, Completion& done) { launch(m, options.after, done); });
  } catch (...) {
    of_.give_up(op);
    throw;
  }
  of_.world->posted(options.waits_at_once);
  return Work(op);
}

AnyReceives& UserMessages::any_receives() {
  if (!any_receives_) {
    const auto holds = [this](int rank, std::uint32_t tag) {
      Endpoint* endpoint = endpoint_to(rank);
      return endpoint != nullptr && endpoint->has_unexpected(tag_of(tag));
    };
    const auto begin = [this](const Message& message, StreamRef after, PendingCall& call) {
      launch(message, after, call);
    };
    const auto& rails = of_.world->fabrics.empty() ? std::span<const std::unique_ptr<Transport>>()
                                                   : of_.world->fabrics.front().fabric->transports();
    const int descriptor = rails.empty() ? -1 : rails.front()->wake_descriptor();
    any_receives_ = std::make_unique<AnyReceives>(of_.group.size(), descriptor, holds, begin);
    of_.world->engine->add(*any_receives_);
  }
  return *any_receives_;
}

Work UserMessages::start_any(const Message& message, const CallOptions& options) {
  const std::uint64_t bytes = message.memory.bytes;
  require_own_device(Collective::Recv, message, options);
  const auto held = of_.world->hold();
  PendingCall& op = of_.begin(fingerprint_of({.collective = Collective::Recv, .count = bytes}), -1, bytes, options);
  try {
    of_.ended.ok() ? any_receives().add(message, options.after, op) : op.finish(of_.ended);
  } catch (...) {
    of_.give_up(op);
    throw;
  }
  of_.world->posted(options.waits_at_once);
  return Work(op);
}

void UserMessages::require_own_device(Collective call, const Message& message, const CallOptions& options) const {
  if (message.memory.place.kind == MemoryKind::Device) [[unlikely]]
    of_.require_own_device(name_of(call), message.memory.place, options.after);
}

Endpoint* UserMessages::endpoint_to(int peer) {
  Endpoint*& known = endpoints_[static_cast<std::size_t>(peer)];
  if (known == nullptr && peer == of_.group.rank) {
    known = &of_.world->self_link();
  } else if (known == nullptr) [[unlikely]] {
    const std::string& name = of_.selector->transport_between(of_.selector->cheapest(), of_.group.rank, peer);
    if (!name.empty()) known = &of_.world->endpoint(of_.group.world_ranks[static_cast<std::size_t>(peer)], name);
  }
  return known;
}

bool UserMessages::takes_device_memory(int peer) const {
  if (peer == of_.group.rank) return false;
  const std::string& name = of_.selector->transport_between(of_.selector->cheapest(), of_.group.rank, peer);
  return of_.world->rail(name)->capabilities().device_memory;
}

void UserMessages::launch(const Message& message, StreamRef after, Completion& done) {
  if (!of_.ended.ok()) return done.finish(of_.ended);
  if (endpoint_to(message.peer) == nullptr) {
    return done.finish(
        Status(Code::Unavailable, fmt::format("no transport leads from {} to {}", of_.group.rank_text(of_.group.rank),
                                              of_.group.rank_text(message.peer))));
  }
  count(message);
  const bool device = message.memory.place.kind == MemoryKind::Device;
  const bool direct = device && takes_device_memory(message.peer);
  if (device && !direct) {
    launch_through_host(message, after, done);
  } else if ((direct && after.device >= 0) || (staged_ && staged_->must_queue(message.sends))) {
    const auto launch = [this, &done, message] { of_.ended.ok() ? post(message, done) : done.finish(of_.ended); };
    staged().queue(message.sends, direct ? after : StreamRef{}, launch, done);
  } else {
    post(message, done);
  }
}

void UserMessages::count(const Message& message) {
  if (counters_.empty()) counters_.resize(endpoints_.size());
  CallCounters*& counters = counters_[static_cast<std::size_t>(message.peer)][message.sends ? 1 : 0];
  if (counters == nullptr) [[unlikely]] {
    const bool is_self = message.peer == of_.group.rank;
    counters = &of_.world->control->counters_of(
        of_.group, message.sends ? Collective::Send : Collective::Recv,
        is_self ? "self" : of_.selector->transport_between(of_.selector->cheapest(), of_.group.rank, message.peer));
  }
  counters->count(message.memory.bytes);
}

void UserMessages::launch_through_host(const Message& message, StreamRef after, Completion& done) {
  StagedMessages& through_host = staged();
  if (message.memory.bytes <= kWholeBytes) {
    const auto through = [this, message](Buffer pinned, Completion& copied) -> StagedMessages::TakeBack {
      post({message.sends, pinned, message.peer, message.tag}, copied);
      return [this, peer = message.peer](Completion& posted) { take_back(peer, posted); };
    };
    message.sends ? through_host.send(message.memory, after, through, done)
                  : through_host.recv(message.memory, after, through, done);
  } else if (!message.sends) {
    of_.world->transfers->recv(route_to(message.peer), message.tag, message.memory, after, true, done);
  } else if (through_host.must_queue(true)) {  // no card overtakes an earlier message
    const auto launch = [this, &done, message] {
      of_.ended.ok() ? of_.world->transfers->send(route_to(message.peer), message.tag, message.memory, {}, done)
                     : done.finish(of_.ended);
    };
    through_host.queue(true, after, launch, done);
  } else {
    of_.world->transfers->send(route_to(message.peer), message.tag, message.memory, after, done);
  }
}

int UserMessages::find_direct(int peer) const {
  if (peer == of_.group.rank || of_.world->device_runtime == nullptr) return -1;
  const Facts& facts = of_.world->facts;
  int fastest = -1;
  Seconds least = std::numeric_limits<Seconds>::infinity();
  for (std::size_t t = 0; t < facts.transports.size(); ++t) {
    const std::string& name = facts.transports[t];
    const Transport* rail = of_.world->rail(name);
    if (rail == nullptr || !rail->capabilities().device_memory) continue;
    const Reach& reach = facts.reach(of_.world->rank, of_.group.world_rank(peer), name);
    const Seconds time = reach.cost.seconds(static_cast<double>(kPieceBytes));
    if (!reach.ok || time >= least) continue;
    least = time;
    fastest = static_cast<int>(t);
  }
  return fastest;
}

TransferRoute UserMessages::route_to(int peer) {
  WorldState& world = *of_.world;
  const int world_rank = of_.group.world_rank(peer);
  std::optional<int>& direct = direct_[static_cast<std::size_t>(peer)];
  if (!direct) direct = find_direct(peer);
  TransferRoute route{.endpoint = endpoint_to(peer),
                      .owner = &of_,
                      .note = note(),
                      .communicator = static_cast<std::uint16_t>(of_.group.communicator + 1),
                      .generation = of_.group.generation,
                      .same_process = world.host->same_process(world_rank),
                      .same_host = world.host->contains(world_rank),
                      .peer = peer,
                      .world_rank = world_rank,
                      .direct = *direct};
  if (*direct >= 0) {
    const std::string& name = world.facts.transports[static_cast<std::size_t>(*direct)];
    route.direct_most_bytes = world.rail(name)->capabilities().max_message_bytes;
  }
  return route;
}

Tag UserMessages::tag_of(std::uint32_t users) const noexcept {
  return Tag::user(of_.group.generation, static_cast<std::uint16_t>(of_.group.communicator + 1), users);
}

std::uint64_t UserMessages::note() const noexcept { return std::max<std::uint64_t>(of_.group.identity, 1); }

void UserMessages::post(const Message& message, Completion& done) {
  const Tag full = tag_of(message.tag);
  // A message of an earlier communicator that had the same id is refused, not taken.
  if (message.sends) {
    endpoint_to(message.peer)->send(message.memory, full, note(), done);
  } else if (Transfers* transfers = of_.world->transfers.get()) {  // the message may be a card
    transfers->recv(route_to(message.peer), message.tag, message.memory, {}, false, done);
  } else {
    done.note = note();
    endpoint_to(message.peer)->recv({message.memory, nullptr, {}}, full, done);
  }
}

void UserMessages::cancel(int peer, Completion& done) {
  if (staged_ && staged_->cancel(done)) return;
  take_back(peer, done);
}

void UserMessages::take_back(int peer, Completion& posted) {
  Transfers* transfers = of_.world->transfers.get();
  if (transfers != nullptr && transfers->cancel(posted) != Transfers::Cancelled::Unknown) return;
  // Without an endpoint no transport has it, and none is made for that: who launches it finds the communicator ended.
  if (Endpoint* known = endpoints_[static_cast<std::size_t>(peer)]) known->cancel(posted);
}

void UserMessages::end(const Status& reason) noexcept {
  if (any_receives_) any_receives_->end(reason);
  if (of_.world->transfers) of_.world->transfers->end(&of_, Status(Code::Cancelled, "the communicator has ended"));
  of_.world->calls->for_each_pending([&](PendingCall& op) {
    if (op.owner != &of_ || !is_message(op) || op.peer < 0) return;
    const auto take_back = [this](int peer, Completion& part) { cancel(peer, part); };
    if (!groups_.cancel(op, take_back)) cancel(op.peer, op);
  });
}

bool UserMessages::has_cards() const noexcept { return of_.world->transfers && of_.world->transfers->has_cards(&of_); }

void UserMessages::release() noexcept {
  if (of_.world->transfers) of_.world->transfers->forget_owner(&of_);
  if (staged_) of_.world->engine->remove(*staged_);
  if (any_receives_) of_.world->engine->remove(*any_receives_);
  staged_.reset();
  any_receives_.reset();
}

}  // namespace sinew
