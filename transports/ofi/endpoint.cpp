#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/core/transport/meets_device.hpp>
#include <sinew/transports/ofi/endpoint.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>

namespace sinew::ofi {
namespace {

/// The 64 bytes of a send.
struct Send : Operation {
  enum class Phase : std::uint8_t { Eager, Announced, Flowing };

  Phase phase = Phase::Eager;
  MemoryKind kind = MemoryKind::Host;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

/// Shorter messages go over one rail of several: a share would take less time than its completion.
constexpr std::size_t kLeastShared = 128 * 1024;
constexpr std::size_t kShareUnit = 64;

constexpr auto kPatience = std::chrono::milliseconds(500);

}  // namespace

OfiEndpoint::OfiEndpoint(Shared& shared, PeerAddress peer, const RailsTo& to, Lane& lane, std::uint64_t their_key)
    : shared_(shared),
      peer_(std::move(peer)),
      to_(to),
      lane_(lane),
      their_key_(their_key),
      matcher_(*this, shared.pool, shared.finished, shared.options.generation),
      credit_(shared.options.eager_credit_bytes),
      owed_credit_(shared.options.eager_credit_bytes) {
  control({.kind = FrameKind::Hello});
}

void OfiEndpoint::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  ++shared_.pending;
  done.bytes = from.bytes;
  Send& s = done.make<Send>();
  if (!end_.ok()) return finish(done, end_);
  const FrameHeader header{.tag = tag.bits, .note = note, .bytes = from.bytes};
  if (from.bytes <= shared_.options.eager_bytes && !meets_device(from.bytes, from.place, tag, peer_.device_memory) &&
      credit_.take(from.bytes)) {
    FrameHeader eager = header;
    eager.kind = FrameKind::Eager;
    return control(eager, from, &done);
  }
  s.phase = Send::Phase::Announced;
  s.kind = from.place.kind;
  s.from = from.data;
  s.bytes = from.bytes;
  s.handle = announced_.insert(done);
  FrameHeader request = header;
  request.kind = FrameKind::Request;
  request.id = s.handle;
  control(request);
}

void OfiEndpoint::recv(Sink to, Tag tag, Completion& done) {
  ++shared_.pending;
  matcher_.recv(to, tag, done);
}

bool OfiEndpoint::cancel(Completion& done) {
  switch (operation_of(done).stage) {
    case Stage::Sending: break;
    case Stage::Posted:
    case Stage::Matched: return matcher_.cancel(done);
    case Stage::Arriving:
    case Stage::Finished: return false;  // its buffer is the provider's
  }
  const Send s = done.as<Send>();
  switch (s.phase) {
    case Send::Phase::Eager:
      if (!lane_.take_back(done)) return false;
      credit_.give(CreditWindow::charge_for(done.bytes));
      break;
    case Send::Phase::Announced:
      announced_.erase(s.handle);
      control({.kind = FrameKind::Withdraw, .id = s.handle});
      break;
    case Send::Phase::Flowing: return false;
  }
  finish(done, {Code::Cancelled, "the send was cancelled"});
  return true;
}

void OfiEndpoint::control(const FrameHeader& header, ConstBuffer payload, Completion* done) {
  lane_.push(header, payload, done);
  if (!lane_.failure().empty()) lane_failed();
}

void OfiEndpoint::lane_failed() {
  if (end_.ok()) shared_.fault(*this, about_peer({Code::PeerLost, lane_.failure()}));
}

Status OfiEndpoint::about_peer(const Status& why) const {
  return {why.code(), fmt::format("rank {}: {}: {}", peer_.rank, peer_.provider, why.message()), peer_.rank};
}

Flow& OfiEndpoint::flow_of(Way way, Completion& operation) {
  Flow& f = shared_.flows.take();
  f.owner = this;
  f.operation = &operation;
  f.way = way;
  f.to = to_;
  f.life = lane_.ends().life;
  f.number = flows_.insert(f);
  return f;
}

/// Messages that are shorter than a piece for each rail are cut into as many.
std::size_t OfiEndpoint::piece_bytes(std::size_t total) const noexcept {
  const std::size_t share = (total / to_.count + kShareUnit) / kShareUnit * kShareUnit;
  const bool shared_out = to_.count > 1 && total >= kLeastShared;
  return shared_out ? std::min(share, shared_.largest_piece()) : shared_.largest_piece();
}

// What the matcher wants.

void OfiEndpoint::grant(std::uint64_t id, Completion& receive) {
  Flow& f = flow_of(Way::Receive, receive);
  const Buffer place = Matcher::place(receive);
  f.base = place.data;
  f.total = place.bytes;
  f.place = place_of(place.place.kind);
  f.through_scratch = place.data == nullptr && place.bytes != 0;
  f.theirs = static_cast<std::uint32_t>(id);
  f.piece_bytes = piece_bytes(f.total);
  if (f.through_scratch) {
    const std::size_t element = Matcher::element_bytes(receive);
    f.piece_bytes = std::min(f.piece_bytes, Flows::kScratchBytes) / element * element;
  }
  operation_of(receive).handle = f.number;
  shared_.flows.start(f);
}

/// A sender is told while it still has some to send, so that it does not stop, and not of each.
void OfiEndpoint::receives_posted(Flow& f) {
  if (f.granted == 0) {
    control({.kind = FrameKind::Clear, .id = f.theirs, .tag = f.posted, .note = f.number, .bytes = f.piece_bytes});
  } else if (f.granted - f.retired <= f.most_posted() / 2) {
    control({.kind = FrameKind::Next, .id = f.number, .bytes = f.posted});
  } else {
    return;
  }
  f.granted = f.posted;
}

void OfiEndpoint::refuse(std::uint64_t id, Code why, std::uint64_t note) {
  control({.kind = FrameKind::Refuse,
           .id = static_cast<std::uint32_t>(id),
           .note = note,
           .bytes = static_cast<std::uint64_t>(why)});
}

void OfiEndpoint::return_credit(std::size_t charge) {
  const std::size_t now = owed_credit_.add(charge);
  if (now != 0) control({.kind = FrameKind::Credit, .bytes = now});
}

// What the peer says.

void OfiEndpoint::frame(const FrameHeader& header, const std::byte* payload) {
  if (!end_.ok()) return;
  const std::size_t payload_bytes = header.kind == FrameKind::Eager ? header.bytes : 0;
  if (header.sequence != next_frame_) {
    Bytes copy(sizeof header + payload_bytes);
    std::memcpy(copy.data(), &header, sizeof header);
    if (payload_bytes != 0) std::memcpy(copy.data() + sizeof header, payload, payload_bytes);
    early_.emplace(header.sequence, std::move(copy));
    return;
  }
  ++next_frame_;
  handle(header, payload);
  while (!early_.empty() && end_.ok()) {
    const auto next = early_.extract(next_frame_);
    if (next.empty()) return;
    FrameHeader kept;
    std::memcpy(&kept, next.mapped().data(), sizeof kept);
    ++next_frame_;
    handle(kept, next.mapped().data() + sizeof kept);
  }
}

void OfiEndpoint::handle(const FrameHeader& h, const std::byte* payload) {
  switch (h.kind) {
    case FrameKind::Hello: return;
    case FrameKind::Eager: return matcher_.eager({{h.tag}, h.note, h.bytes}, payload);
    case FrameKind::Request: return matcher_.rendezvous({{h.tag}, h.note, h.bytes}, h.id);
    case FrameKind::Clear: return cleared(h);
    case FrameKind::Next: return granted(h);
    case FrameKind::Refuse: return refused(h);
    case FrameKind::Withdraw: return withdrawn(h.id);
    case FrameKind::Credit: return credit_.give(h.bytes);
    case FrameKind::Bye:
      return lose({Code::PeerLost, fmt::format("rank {} closed its endpoint", peer_.rank), peer_.rank}, false);
  }
}

void OfiEndpoint::cleared(const FrameHeader& h) {
  Completion* done = announced_.erase(h.id);
  if (done == nullptr) return;  // taken back meanwhile; the peer will hear of it
  Send& s = done->as<Send>();
  s.phase = Send::Phase::Flowing;
  Flow& f = flow_of(Way::Send, *done);
  s.handle = f.number;
  f.base = const_cast<std::byte*>(s.from);  // only read
  f.total = s.bytes;
  f.place = place_of(s.kind);
  f.piece_bytes = h.bytes;
  f.theirs = static_cast<std::uint32_t>(h.note);
  f.granted = h.tag;
  shared_.flows.start(f);
}

void OfiEndpoint::granted(const FrameHeader& h) {
  flows_.for_each([&](Flow& f, std::uint32_t) {
    if (f.way == Way::Send && f.theirs == h.id && f.granted < f.pieces()) shared_.flows.grant(f, h.bytes);
  });
}

void OfiEndpoint::refused(const FrameHeader& h) {
  Completion* done = announced_.erase(h.id);
  if (done == nullptr) return;
  if (static_cast<Code>(h.bytes) != Code::Mismatch) return finish(*done, {});
  done->note = h.note;
  finish(*done, {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer_.rank, h.note)});
}

/// The sender took it back before it knew that it was cleared: no piece of it has left or will.
void OfiEndpoint::withdrawn(std::uint32_t number) {
  if (matcher_.withdraw(number)) return;
  flows_.for_each([&](Flow& f, std::uint32_t) {
    if (f.way != Way::Receive || f.theirs != number || f.withdrawn) return;
    f.withdrawn = true;
    shared_.flows.stop(f, {});
  });
}

void OfiEndpoint::piece_arrived(Flow& f, const std::byte* scratch, std::size_t bytes) {
  if (f.operation == nullptr) return;
  scratch != nullptr ? matcher_.deliver(*f.operation, scratch, bytes) : matcher_.arrived(*f.operation, bytes);
}

void OfiEndpoint::flow_ended(Flow& f, const Status& why) {
  flows_.erase(f.number);
  const Status said = f.broken ? about_peer(why) : why;
  if (f.broken && end_.ok()) shared_.fault(*this, said);
  end_operation(f, said);
  fire_closed_if_idle();
}

void OfiEndpoint::end_operation(Flow& f, const Status& why) {
  if (f.operation == nullptr) return;
  Completion& operation = *std::exchange(f.operation, nullptr);
  if (f.way == Way::Send) return finish(operation, why);
  if (f.withdrawn && why.ok()) {
    matcher_.repost(operation);
  } else if (!why.ok()) {
    matcher_.fail(operation, why);
  }
}

OfiEndpoint::~OfiEndpoint() {
  if (end_.ok()) {
    end_messages({Code::Cancelled, "the endpoint was destroyed"});
    control({.kind = FrameKind::Bye});
  }
  flows_.for_each([&](Flow& f, std::uint32_t number) {
    flows_.erase(number);
    end_operation(f, end_);
    f.owner = nullptr;
    shared_.flows.stop(f, end_);
  });
  shared_.forget(*this);
}

void OfiEndpoint::close(Completion& closed) {
  ++shared_.pending;
  closed.make<Operation>();
  closed_ = &closed;
  const bool lost = !end_.ok();
  end_messages({Code::Cancelled, "the endpoint was closed"});
  if (!lost) control({.kind = FrameKind::Bye});
  stop_flows();
  fire_closed_if_idle();
}

void OfiEndpoint::lose(const Status& why, bool at_once) {
  if (!end_.ok()) return;
  log::debug("ofi: {}", why.message());
  end_messages(why);
  lane_.drop(true, [](Completion&) {});
  if (at_once) {
    control({.kind = FrameKind::Bye});
    return stop_flows();
  }
  // What it sent before its last word may still be on its way.
  if (flows_.count() == 0) return;
  ending_ = Ending::Patient;
  patience_ = Clock::now() + kPatience;
  wait_on();
}

/// All but what the provider has.
void OfiEndpoint::end_messages(const Status& reason) {
  end_ = reason;
  lane_.drop(false, [&](Completion& c) { finish(c, reason); });
  announced_.for_each([&](Completion& c, std::uint32_t number) {
    announced_.erase(number);
    finish(c, reason);
  });
  early_.clear();
  reason.code() == Code::Cancelled ? matcher_.close(reason) : matcher_.fail(reason);
  if (!shared_.self.place.empty()) remove_left_overs();
}

void OfiEndpoint::stop_flows() {
  ending_ = Ending::Stopped;
  flows_.for_each([&](Flow& f, std::uint32_t) { shared_.flows.stop(f, end_); });
  patience_ = Clock::now() + kPatience;
  if (flows_.count() != 0) wait_on();
}

void OfiEndpoint::wait_on() {
  if (std::ranges::find(shared_.ending, this) == shared_.ending.end()) shared_.ending.push_back(this);
}

bool OfiEndpoint::pass_time(Clock::time_point now) {
  if (flows_.count() == 0) return true;
  if (now < patience_) return false;
  if (ending_ == Ending::Patient) {
    stop_flows();
    return flows_.count() == 0;
  }
  cut_off();
  return true;
}

void OfiEndpoint::cut_off() {
  const bool cut = shared_.rails.cut_off(to_);
  ending_ = Ending::Over;
  if (cut && !shared_.rails.first().is_shm()) lane_.cut_off();
  flows_.for_each([&](Flow& f, std::uint32_t number) {
    end_operation(f, end_);
    if (!cut) return;
    flows_.erase(number);
    f.owner = nullptr;
  });
  fire_closed_if_idle();
}

void OfiEndpoint::fire_closed_if_idle() {
  if (closed_ != nullptr && flows_.count() == 0) finish(*std::exchange(closed_, nullptr), {});
}

}  // namespace sinew::ofi
