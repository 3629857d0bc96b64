#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include <sinew/transports/shm/memory/direct_read.hpp>
#include <sinew/transports/shm/messages/receiver.hpp>

namespace sinew::shm {
namespace {

constexpr std::uint64_t kBytesPerTurn = 4 << 20;
/// A multiple of every element.
constexpr std::size_t kSkippedFragmentBytes = 64 << 10;

}  // namespace

Receiver::Receiver(Connection& connection, FrameWriter& out)
    : connection_(connection),
      out_(out),
      matcher_(*this, connection.hub.pool, connection.hub.finished, connection.hub.generation) {}

std::uint64_t Receiver::keep(const Offer& offer) {
  auto free = std::ranges::find(offers_, false, &Offer::used);
  if (free == offers_.end()) free = offers_.insert(offers_.end(), Offer{});
  *free = offer;
  free->used = true;
  return static_cast<std::uint64_t>(free - offers_.begin());
}

void Receiver::requested(const Frame& frame) {
  const std::uint64_t offer =
      keep({frame.bytes, frame.more.place, frame.id, frame.more.ticket, frame.access, true, false});
  matcher_.rendezvous({{frame.tag}, frame.note, frame.bytes}, offer);
}

/// The matcher takes it for a rendezvous message. So if its receive is known, the fragments go straight to the receive.
void Receiver::first_fragment(const Frame& frame) {
  incoming_ = {.envelope = {{frame.tag}, frame.note, frame.id}, .under_way = true};
  incoming_.offer = keep({.bytes = frame.id, .in_fragments = true});
  matcher_.rendezvous(incoming_.envelope, incoming_.offer);
  take_in(frame);
}

void Receiver::next_fragment(const Frame& frame) {
  if (incoming_.under_way) take_in(frame);
}

void Receiver::take_in(const Frame& frame) {
  Incoming& p = incoming_;
  const std::uint64_t total = p.envelope.bytes;
  if (p.receive != nullptr) {
    matcher_.deliver(*p.receive, frame.payload(), frame.bytes);
  } else if (!p.dropped) {
    if (p.kept == nullptr) p.kept = static_cast<std::byte*>(connection_.hub.pool.take(total));
    std::memcpy(p.kept + p.arrived, frame.payload(), frame.bytes);
  }
  p.arrived += frame.bytes;
  if (p.arrived < total) return;
  p.under_way = false;
  if (p.receive != nullptr || p.dropped) {
    return_credit(CreditWindow::charge_for(total));
  } else {  // no receive took it: the whole message becomes an eager one, before any later message has come
    offers_[p.offer].used = false;
    matcher_.withdraw(p.offer);
    matcher_.eager(p.envelope, p.kept);
  }
  end_incoming();
}

/// Forgets the message, whose last fragment has come or will not come.
void Receiver::end_incoming() noexcept {
  if (incoming_.kept != nullptr) connection_.hub.pool.give(incoming_.kept, incoming_.envelope.bytes);
  incoming_ = {};
}

void Receiver::withdrawn(std::uint32_t id) {
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    if (offers_[i].used && !offers_[i].in_fragments && offers_[i].id == id && matcher_.withdraw(i))
      offers_[i].used = false;
  }
}

void Receiver::streamed(const Frame& frame) {
  Completion* receive = granted_.find(frame.id);
  if (receive == nullptr) return;
  if (Matcher::bytes_left(*receive) == frame.bytes) granted_.erase(frame.id);
  matcher_.deliver(*receive, frame.payload(), frame.bytes);
}

void Receiver::gone(std::uint32_t number) {
  if (Completion* receive = granted_.erase(number)) matcher_.repost(*receive);
}

bool Receiver::reads_directly(const Offer& offer) noexcept {
  if (offer.access == Access::Staged) return false;
  if (offer.access == Access::Segment || connection_.same_process) return true;
  const Hub& hub = connection_.hub;
  return offer.bytes >= hub.read_from_bytes.load(std::memory_order_relaxed) &&
         offer.bytes < hub.read_to_bytes.load(std::memory_order_relaxed) && may_read();
}

/// The kernel may refuse, and where ranks have process ids of their own each, that of the peer is another one here.
bool Receiver::may_read() noexcept {
  if (!may_read_) {
    const Port& port = connection_.their_port;
    std::uint64_t seen = 0;
    const int error = read_process(connection_.hub.host.pid_of(connection_.peer), reinterpret_cast<std::byte*>(&seen),
                                   port.proof_at, sizeof seen);
    may_read_ = error == 0 && seen == port.proof;
  }
  return *may_read_;
}

void Receiver::grant(std::uint64_t offer, Completion& receive) {
  Offer& o = offers_[offer];
  o.used = false;
  if (o.in_fragments) {
    incoming_.receive = &receive;
    if (incoming_.arrived > 0) matcher_.deliver(receive, incoming_.kept, incoming_.arrived);
  } else if (reads_directly(o)) {
    pulls_.push_back({&receive, o, 0});
  } else {
    request_stream(o.id, receive);
  }
}

void Receiver::request_stream(std::uint32_t id, Completion& receive) {
  out_.post({FrameKind::Grant, id, granted_.insert(receive)});
}

void Receiver::refuse(std::uint64_t offer, Code why, std::uint64_t note) {
  offers_[offer].used = false;
  if (offers_[offer].in_fragments) {
    incoming_.dropped = true;
    return;
  }
  out_.post({FrameKind::Refuse, offers_[offer].id, 0, why, note});
}

void Receiver::return_credit(std::size_t charge) {
  returned_ += charge;
  connection_.mine.returned.value.store(returned_, std::memory_order_release);
}

int Receiver::read() noexcept {
  if (pulls_.empty()) return 0;
  Pull& p = pulls_.front();
  if (p.receive != nullptr) {
    if (!claimed_ && !claim(p)) return 0;
    if (!read_some(p) || p.receive != nullptr) return 1;
  }
  Frame* frame = out_.claim(1);
  if (frame == nullptr) return 0;
  frame->kind = FrameKind::Taken;
  frame->id = p.offer.id;
  frame->bytes = 0;
  out_.publish(*frame, 1);
  give_up_claim();  // after Taken: who misses the claim finds that
  pulls_.pop_front();
  return 1;
}

void Receiver::give_up_claim() noexcept {
  connection_.mine.claimed.value.store(0, std::memory_order_release);
  claimed_ = false;
}

/// false: not yet, or not any more.
bool Receiver::claim(Pull& p) noexcept {
  connection_.mine.claimed.value.store(claim_word(p.offer.id), std::memory_order_relaxed);
  full_fence();
  const std::uint64_t standing = connection_.their_port.tickets[p.offer.ticket].load(std::memory_order_acquire);
  const int rank = connection_.hub.rank;
  claimed_ = standing == ticket_word(rank, p.offer.id, Standing::Offered);
  if (claimed_ || standing == ticket_word(rank, p.offer.id, Standing::Trying)) return claimed_;
  Completion& receive = *p.receive;
  give_up_claim();
  pulls_.pop_front();
  matcher_.repost(receive);
  return false;
}

/// Clears p.receive when there is no more to read; false: it is not read here after all.
bool Receiver::read_some(Pull& p) noexcept {
  const std::uint64_t length = std::min(kBytesPerTurn, p.offer.bytes - p.read);
  Completion& receive = *p.receive;
  const std::uint64_t place = p.offer.place + p.read;
  if (p.offer.access != Access::Segment && !connection_.same_process) {
    if (!read_through_kernel(p, receive, place, length)) return false;
  } else {
    const bool registered = p.offer.access == Access::Segment;
    matcher_.deliver(receive, registered ? connection_.their_heap + place : reinterpret_cast<const std::byte*>(place),
                     length);
  }
  p.read += length;
  if (p.read == p.offer.bytes) p.receive = nullptr;
  return true;
}

bool Receiver::read_through_kernel(Pull& p, Completion& receive, std::uint64_t place, std::uint64_t bytes) noexcept {
  const int peer = connection_.peer;
  const pid_t pid = connection_.hub.host.pid_of(peer);
  const Buffer to = Matcher::place(receive);
  std::uint64_t taken = 0;
  Status problem;
  while (taken < bytes && problem.ok()) {
    const std::uint64_t fragment =
        to.data != nullptr ? bytes : std::min<std::uint64_t>(kSkippedFragmentBytes, bytes - taken);
    if (to.data == nullptr) bounce_.resize(kSkippedFragmentBytes);
    const int error = read_process(pid, to.data != nullptr ? to.data : bounce_.data(), place + taken, fragment);
    problem = still_offered(p.offer);  // an owner that has ended may have freed the memory
    if (problem.ok() && error != 0) problem = direct_read_status(error, fmt::format("rank {}", peer), peer, pid);
    if (!problem.ok()) break;
    taken += fragment;
    to.data != nullptr ? matcher_.arrived(receive, fragment) : matcher_.deliver(receive, bounce_.data(), fragment);
  }
  if (problem.ok()) return true;
  give_up_claim();
  const std::uint32_t id = p.offer.id;
  const bool untouched = p.read + taken == 0;
  pulls_.pop_front();
  if (untouched) {  // its owner can read it, or is about to say that it is gone
    may_read_ = false;
    request_stream(id, receive);
  } else {
    out_.post({FrameKind::Refuse, id, 0, Code::System});
    matcher_.fail(receive, problem);
  }
  return false;
}

/// After a look at its memory: was that still the message?
Status Receiver::still_offered(const Offer& offer) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t standing = connection_.their_port.tickets[offer.ticket].load(std::memory_order_relaxed);
  const auto word = [&](Standing s) { return ticket_word(connection_.hub.rank, offer.id, s); };
  if (standing == word(Standing::Offered) || standing == word(Standing::Trying)) return {};
  const int peer = connection_.peer;
  return {Code::PeerLost, fmt::format("rank {} ended while its message was read", peer), peer};
}

void Receiver::end_granted(const Status& reason) noexcept {
  give_up_claim();
  if (incoming_.receive != nullptr) matcher_.fail(*incoming_.receive, reason);
  end_incoming();
  for (const Pull& p : pulls_) {
    if (p.receive != nullptr) matcher_.fail(*p.receive, reason);
  }
  pulls_.clear();
  granted_.for_each([&](Completion& receive, std::uint32_t number) {
    granted_.erase(number);
    matcher_.fail(receive, reason);
  });
}

void Receiver::close(const Status& reason) noexcept {
  end_granted(reason);
  matcher_.close(reason);
}

void Receiver::fail(const Status& reason) noexcept {
  end_granted(reason);
  matcher_.fail(reason);
}

}  // namespace sinew::shm
