#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/control_channel.hpp>

namespace sinew::tcp {
namespace {

constexpr std::size_t kGather = 32;  // pieces per system call

/// The part of [data, data + bytes) after `skip`, which is reduced by what was skipped.
iovec after(const void* data, std::size_t bytes, std::size_t& skip) noexcept {
  const std::size_t s = std::min(skip, bytes);
  skip -= s;
  return {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + s, bytes - s};
}

}  // namespace

void ControlChannel::push(const FrameHeader& header, ConstBuffer payload, Completion* done) {
  if (head_ == frames_.size()) {
    frames_.clear();
    head_ = 0;
  }
  frames_.push_back({header, payload, done});
}

ChannelState ControlChannel::write() {
  while (waiting() && socket_ >= 0) {
    std::array<iovec, kGather> pieces;
    std::size_t count = 0;
    std::size_t skip = head_sent_;
    for (std::size_t i = head_; i < frames_.size() && count + 2 <= kGather; ++i) {
      pieces[count++] = after(&frames_[i].header, sizeof(FrameHeader), skip);
      if (frames_[i].payload.bytes != 0)
        pieces[count++] = after(frames_[i].payload.data, frames_[i].payload.bytes, skip);
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ChannelState::Ended;
    written(static_cast<std::size_t>(n));
  }
  return ChannelState::Open;
}

void ControlChannel::written(std::size_t bytes) {
  head_sent_ += bytes;
  while (waiting() && head_sent_ >= frames_[head_].bytes()) {
    head_sent_ -= frames_[head_].bytes();
    if (Completion* done = frames_[head_].done) events_.eager_written(*done);
    ++head_;
  }
  if (head_ > 256 && head_ * 2 > frames_.size()) {
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

bool ControlChannel::take_back(Completion& eager) {
  const auto first = frames_.begin() + static_cast<std::ptrdiff_t>(head_);
  const auto at = std::find_if(first, frames_.end(), [&eager](const Frame& f) { return f.done == &eager; });
  if (at == frames_.end()) return false;
  if (at != first || head_sent_ == 0) {
    frames_.erase(at);
    return true;
  }
  rest_.assign(at->payload.data, at->payload.data + at->payload.bytes);
  at->payload.data = rest_.data();
  at->done = nullptr;
  events_.eager_written(eager);
  return false;
}

ChannelState ControlChannel::read(std::span<std::byte> scratch) {
  for (;;) {
    const std::size_t kept = unfinished_.size();
    if (kept != 0) std::memcpy(scratch.data(), unfinished_.data(), kept);
    const ssize_t n = ::recv(socket_, scratch.data() + kept, scratch.size() - kept, 0);
    if (n == 0) return ChannelState::Ended;
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ChannelState::Ended;
    const auto data = scratch.first(kept + static_cast<std::size_t>(n));
    std::size_t used = 0;
    if (!parse(data, scratch.size(), used)) return ChannelState::Ended;
    unfinished_.assign(data.begin() + static_cast<std::ptrdiff_t>(used), data.end());
    if (data.size() < scratch.size()) return ChannelState::Open;
  }
}

bool ControlChannel::parse(std::span<const std::byte> data, std::size_t longest, std::size_t& used) {
  while (data.size() - used >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, data.data() + used, sizeof header);
    const std::uint64_t payload = header.kind == FrameKind::Eager ? header.bytes : 0;
    if (header.kind < FrameKind::Eager || header.kind > FrameKind::Credit || payload > longest - sizeof header) {
      log::warning("tcp: a control frame of kind {} with {} bytes: the peer speaks another protocol",
                   static_cast<std::uint32_t>(header.kind), header.bytes);
      return false;
    }
    if (data.size() - used < sizeof header + payload) break;
    events_.control_frame(header, data.data() + used + sizeof header);
    used += sizeof header + payload;
  }
  return true;
}

}  // namespace sinew::tcp
