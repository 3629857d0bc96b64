#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include <sinew/transports/shm/direct_read.hpp>
#include <sinew/transports/shm/endpoint.hpp>

namespace sinew::shm {
namespace {

constexpr int kFramesPerTurn = 128;
constexpr std::uint64_t kBytesPerTurn = 4 << 20;
/// A multiple of every element.
constexpr std::size_t kSkippedPieceBytes = 64 << 10;

}  // namespace

void ShmEndpoint::recv(Sink to, Tag tag, Completion& done) { matcher_.recv(to, tag, done); }

int ShmEndpoint::handle_frames() {
  if (!end_.ok()) return 0;
  int count = 0;
  for (; count < kFramesPerTurn; ++count) {
    // Nobody waits here any more. Whoever waited may post the next receives first, and what he sends need not wait
    // until the next line has come from the other core.
    if (count > 0 && matcher_.pending() == 0) break;
    const Frame* frame = in_.next();
    if (frame == nullptr) break;
    in_.fetch_ahead(*frame);
    const std::uint16_t lines = frame->lines;
    handle(*frame);
    if (in_.release(lines)) waker_.notify();
  }
  if (theirs_.ended.value.load(std::memory_order_acquire) == in_.position() + 1) lose_peer();
  return count;
}

void ShmEndpoint::handle(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::Skip: return;
    case FrameKind::Eager: return matcher_.eager({{frame.tag}, frame.note, frame.bytes}, frame.payload());
    case FrameKind::Announce: return keep_offer(frame);
    case FrameKind::Grant: return granted(frame.id, frame.more.receive);
    case FrameKind::Data: return pour_in(frame);
    case FrameKind::Gone:
      if (Completion* receive = granted_.erase(frame.more.receive)) matcher_.repost(*receive);
      return;
    case FrameKind::Taken: return end_send(frame.id, {});
    case FrameKind::Refuse: return refused(frame);
    case FrameKind::Withdraw: return withdraw_offer(frame.id);
  }
}

void ShmEndpoint::keep_offer(const Frame& frame) {
  auto free = std::ranges::find(offers_, false, &Offer::used);
  if (free == offers_.end()) free = offers_.insert(offers_.end(), Offer{});
  *free = {frame.bytes, frame.more.place, frame.id, frame.more.ticket, frame.access, true};
  matcher_.announce({{frame.tag}, frame.note, frame.bytes}, static_cast<std::uint64_t>(free - offers_.begin()));
}

/// Not kept any more: granted, and whoever reads it finds out by itself.
void ShmEndpoint::withdraw_offer(std::uint32_t id) {
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    if (offers_[i].used && offers_[i].id == id && matcher_.withdraw(i)) offers_[i].used = false;
  }
}

bool ShmEndpoint::reads_in_place(const Offer& offer) noexcept {
  if (offer.access == Access::Staged) return false;
  if (offer.access == Access::Heap || same_process_) return true;
  return offer.bytes >= hub_.read_from_bytes.load(std::memory_order_relaxed) &&
         offer.bytes < hub_.read_to_bytes.load(std::memory_order_relaxed) && may_read();
}

/// The kernel may refuse, and where ranks have process ids of their own each, that of the peer is another one here.
bool ShmEndpoint::may_read() noexcept {
  if (!may_read_) {
    std::uint64_t seen = 0;
    const int error =
        read_process(hub_.host.pid_of(peer_), reinterpret_cast<std::byte*>(&seen), their_port_.proof_at, sizeof seen);
    may_read_ = error == 0 && seen == their_port_.proof;
  }
  return *may_read_;
}

void ShmEndpoint::grant(std::uint64_t offer, Completion& receive) {
  Offer& o = offers_[offer];
  o.used = false;
  if (reads_in_place(o)) {
    pulls_.push_back({&receive, o, 0});
  } else {
    ask_to_pour(o.id, receive);
  }
}

void ShmEndpoint::ask_to_pour(std::uint32_t id, Completion& receive) {
  controls_.push_back({FrameKind::Grant, id, granted_.insert(receive)});
}

void ShmEndpoint::refuse(std::uint64_t offer, Code why, std::uint64_t note) {
  offers_[offer].used = false;
  controls_.push_back({FrameKind::Refuse, offers_[offer].id, 0, why, note});
}

void ShmEndpoint::return_credit(std::size_t charge) {
  returned_ += charge;
  mine_.returned.value.store(returned_, std::memory_order_release);
}

void ShmEndpoint::pour_in(const Frame& frame) {
  Completion* receive = granted_.find(frame.id);
  if (receive == nullptr) return;
  if (Matcher::bytes_left(*receive) == frame.bytes) granted_.erase(frame.id);
  matcher_.deliver(*receive, frame.payload(), frame.bytes);
}

int ShmEndpoint::pull() noexcept {
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
  publish(*frame, 1);
  mine_.claimed.value.store(0, std::memory_order_release);  // after Taken: who misses the claim finds that
  claimed_ = false;
  pulls_.pop_front();
  return 1;
}

/// false: not yet, or not any more.
bool ShmEndpoint::claim(Pull& p) noexcept {
  mine_.claimed.value.store(claim_word(p.offer.id), std::memory_order_relaxed);
  full_fence();
  const std::uint64_t standing = their_port_.tickets[p.offer.ticket].load(std::memory_order_acquire);
  claimed_ = standing == ticket_word(hub_.rank, p.offer.id, Standing::Offered);
  if (claimed_ || standing == ticket_word(hub_.rank, p.offer.id, Standing::Trying)) return claimed_;
  Completion& receive = *p.receive;
  mine_.claimed.value.store(0, std::memory_order_release);
  pulls_.pop_front();
  matcher_.repost(receive);
  return false;
}

/// Clears p.receive when there is no more to read; false: it is not read here after all.
bool ShmEndpoint::read_some(Pull& p) noexcept {
  const std::uint64_t length = std::min(kBytesPerTurn, p.offer.bytes - p.read);
  Completion& receive = *p.receive;
  const std::uint64_t place = p.offer.place + p.read;
  if (p.offer.access != Access::Heap && !same_process_) {
    if (!read_through_kernel(p, receive, place, length)) return false;
  } else {
    const bool registered = p.offer.access == Access::Heap;
    matcher_.deliver(receive, registered ? their_heap_ + place : reinterpret_cast<const std::byte*>(place), length);
  }
  p.read += length;
  if (p.read == p.offer.bytes) p.receive = nullptr;
  return true;
}

bool ShmEndpoint::read_through_kernel(Pull& p, Completion& receive, std::uint64_t place, std::uint64_t bytes) noexcept {
  const pid_t pid = hub_.host.pid_of(peer_);
  const Buffer to = Matcher::place(receive);
  std::uint64_t taken = 0;
  Status problem;
  while (taken < bytes && problem.ok()) {
    const std::uint64_t piece = to.data != nullptr ? bytes : std::min<std::uint64_t>(kSkippedPieceBytes, bytes - taken);
    if (to.data == nullptr) bounce_.resize(kSkippedPieceBytes);
    const int error = read_process(pid, to.data != nullptr ? to.data : bounce_.data(), place + taken, piece);
    problem = still_offered(p.offer);  // an owner that has ended may have freed the memory
    if (problem.ok() && error != 0) problem = direct_read_status(error, fmt::format("rank {}", peer_), peer_, pid);
    if (!problem.ok()) break;
    taken += piece;
    to.data != nullptr ? matcher_.arrived(receive, piece) : matcher_.deliver(receive, bounce_.data(), piece);
  }
  if (problem.ok()) return true;
  mine_.claimed.value.store(0, std::memory_order_release);
  claimed_ = false;
  const std::uint32_t id = p.offer.id;
  const bool untouched = p.read + taken == 0;
  pulls_.pop_front();
  if (untouched) {  // its owner can read it, or is about to say that it is gone
    may_read_ = false;
    ask_to_pour(id, receive);
  } else {
    controls_.push_back({FrameKind::Refuse, id, 0, Code::System});
    matcher_.fail(receive, problem);
  }
  return false;
}

/// After a look at its memory: was that still the message?
Status ShmEndpoint::still_offered(const Offer& offer) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t standing = their_port_.tickets[offer.ticket].load(std::memory_order_relaxed);
  const auto word = [&](Standing s) { return ticket_word(hub_.rank, offer.id, s); };
  if (standing == word(Standing::Offered) || standing == word(Standing::Trying)) return {};
  return {Code::PeerLost, fmt::format("rank {} ended while its message was read", peer_), peer_};
}

}  // namespace sinew::shm
