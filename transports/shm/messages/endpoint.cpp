#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/shm/messages/endpoint.hpp>

namespace sinew::shm {
namespace {

constexpr int kFramesPerTurn = 128;

}  // namespace

ShmEndpoint::ShmEndpoint(Hub& hub, const PortAddress& peer)
    : connection_(hub, peer),
      in_(Port::ring_of(connection_.theirs, hub.host.ranks().size()), peer.salt, connection_.mine.consumed.value),
      out_(connection_),
      sender_(connection_, out_),
      receiver_(connection_, out_) {
  hub.endpoints.push_back(this);
}

ShmEndpoint::~ShmEndpoint() {
  const Status reason{Code::Cancelled, "the endpoint was destroyed"};
  end(reason);
  sender_.end_all(reason);
  std::erase(connection_.hub.endpoints, this);
}

int ShmEndpoint::progress() noexcept {
  int moved = handle_frames();
  moved += receiver_.read();
  moved += flush();
  if (closed_ != nullptr) fire_closed();
  return moved;
}

int ShmEndpoint::flush() noexcept {
  const bool had_controls = out_.has_controls();
  if (!out_.flush()) return 0;
  return (had_controls ? 1 : 0) + sender_.flush();
}

bool ShmEndpoint::active() const noexcept {
  return receiver_.pending() != 0 || sender_.active() || out_.has_controls() || receiver_.wants_to_read() ||
         closed_ != nullptr;
}

bool ShmEndpoint::can_progress() noexcept {
  if (receiver_.wants_to_read()) return true;
  if (connection_.end.ok()) {  // else nobody looks at what comes
    if (in_.next() != nullptr) return true;
    if (connection_.theirs.ended.value.load(std::memory_order_acquire) == in_.position() + 1) return true;
  }
  const bool has_something = out_.has_controls() || sender_.wants_room();
  return (has_something && out_.has_room(2 * Frame::lines_for(kLongFragmentBytes))) || closed_ != nullptr;
}

int ShmEndpoint::handle_frames() {
  if (!connection_.end.ok()) return 0;
  int count = 0;
  for (; count < kFramesPerTurn; ++count) {
    // Nobody waits here any more. Whoever waited may post the next receives first, and what he sends need not wait
    // until the next line has come from the other core.
    if (count > 0 && receiver_.pending() == 0) break;
    const Frame* frame = in_.next();
    if (frame == nullptr) break;
    in_.fetch_ahead(*frame);
    out_.heard();
    const std::uint16_t lines = frame->lines;
    handle(*frame);
    if (in_.release(lines)) out_.notify();
  }
  if (connection_.theirs.ended.value.load(std::memory_order_acquire) == in_.position() + 1) lose_peer();
  return count;
}

void ShmEndpoint::handle(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::Skip: return;
    case FrameKind::Eager: return receiver_.eager(frame);
    case FrameKind::First: return receiver_.first_fragment(frame);
    case FrameKind::Next: return receiver_.next_fragment(frame);
    case FrameKind::Request: return receiver_.requested(frame);
    case FrameKind::Grant: return sender_.granted(frame.id, frame.more.receive);
    case FrameKind::Data: return receiver_.streamed(frame);
    case FrameKind::Gone: return receiver_.gone(frame.more.receive);
    case FrameKind::Taken: return sender_.taken(frame.id);
    case FrameKind::Refuse: return sender_.refused(frame);
    case FrameKind::Withdraw: return receiver_.withdrawn(frame.id);
  }
}

bool ShmEndpoint::cancel(Completion& done) {
  const Stage stage = operation_of(done).stage;
  if (stage == Stage::Finished) return false;
  if (stage != Stage::Sending) return receiver_.cancel(done);
  if (sender_.cancel_waiting(done)) return true;
  const std::optional<std::uint32_t> id = sender_.stop_offering(done);
  if (!id) return false;
  while (handle_frames() > 0) {  // all there are: the last may say that the message was taken
  }
  return sender_.withdraw(*id);
}

void ShmEndpoint::close(Completion& closed) {
  end({Code::Cancelled, "the endpoint was closed"});
  closed_ = &closed;
  fire_closed();
}

/// This side ends: nothing is sent or received any more. Messages that the peer is reading right now end when it has.
void ShmEndpoint::end(const Status& reason) noexcept {
  const bool told = connection_.end.code() == Code::Cancelled;
  connection_.end = reason;
  if (!told) {
    out_.flush();
    out_.drop_controls();
    connection_.mine.ended.value.store(out_.position() + 1, std::memory_order_release);
    out_.notify();
  }
  sender_.close(reason);
  receiver_.close(reason);
}

void ShmEndpoint::lose_peer() noexcept {
  const int peer = connection_.peer;
  connection_.end = {Code::PeerLost, fmt::format("rank {} has closed its end", peer), peer};
  out_.drop_controls();
  sender_.fail(connection_.end);
  receiver_.fail(connection_.end);
}

/// Quiet once the peer has stopped reading what is left, or has ended itself.
void ShmEndpoint::fire_closed() noexcept {
  if (sender_.end_unread()) connection_.hub.finished.add(*std::exchange(closed_, nullptr), {});
}

}  // namespace sinew::shm
