#include <algorithm>
#include <cstring>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/ofi/lane.hpp>
#include <sinew/transports/ofi/life.hpp>

namespace sinew::ofi {
namespace {

/// Longer frames are sent from a frame of the pool, even if the provider would copy more.
constexpr std::size_t kMostInjected = 512;

void write_frame(std::byte* to, const FrameHeader& header, ConstBuffer payload) {
  std::memcpy(to, &header, sizeof header);
  if (payload.bytes != 0) std::memcpy(to + sizeof header, payload.data, payload.bytes);
}

}  // namespace

void Lane::push(FrameHeader header, ConstBuffer payload, Completion* done) {
  header.key = ends_.key;
  header.rank = ends_.own_rank;
  const Waiting frame{header, payload, done};
  if (waiting_.empty() && post(frame)) return;
  if (waiting_.empty()) lanes_.stalled.push_back(this);
  waiting_.push_back(frame);
}

bool Lane::flush() {
  while (!waiting_.empty() && post(waiting_.front())) waiting_.pop_front();
  return waiting_.empty();
}

bool Lane::take_back(Completion& eager) {
  const auto at = std::ranges::find(waiting_, &eager, &Waiting::done);
  if (at == waiting_.end()) return false;
  waiting_.erase(at);
  return true;
}

bool Lane::post(const Waiting& w) {
  if (failure_.empty() && has_ended(ends_.life)) failure_ = "its process has ended";
  if (!failure_.empty()) {
    if (w.done != nullptr) lanes_.finished.add(*w.done, {Code::PeerLost, failure_, ends_.peer_rank});
    return true;
  }
  FrameHeader header = w.header;
  header.sequence = sequence_;
  const std::size_t bytes = sizeof header + w.payload.bytes;
  const std::size_t inject = std::min(lanes_.rail.info().tx_attr->inject_size, kMostInjected);
  ssize_t result = 0;
  // Of what was injected nobody says when it has left; the last frame is to say so for all before it.
  if (bytes <= inject && header.kind != FrameKind::Bye) {
    std::byte buffer[kMostInjected];
    write_frame(buffer, header, w.payload);
    result = fi_inject(lanes_.rail.endpoint(), buffer, bytes, ends_.to);
  } else {
    Frame* frame = nullptr;
    try {
      frame = &lanes_.frames.take();
    } catch (const Error& e) {
      log::debug("ofi: a frame waits until another has left: {}", e.what());
      return false;
    }
    write_frame(frame->data, header, w.payload);
    Request& request = *frame;
    result = fi_send(lanes_.rail.endpoint(), frame->data, bytes, frame->descriptor, ends_.to, &request);
    if (result != 0) lanes_.frames.give(*frame);
  }
  if (is_later(result)) return false;
  if (result != 0) failure_ = fi_strerror(static_cast<int>(-result));
  ++sequence_;
  if (w.done != nullptr) lanes_.finished.add(*w.done, {});
  return true;
}

}  // namespace sinew::ofi
