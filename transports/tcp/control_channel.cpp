#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/control_channel.hpp>

namespace sinew::tcp {
namespace {

constexpr std::size_t kGather = 32;            // pieces per system call
constexpr std::size_t kTellAfter = 64 * 1024;  // what the other side keeps of a stream until it is told

/// The part of [data, data + bytes) after `skip`, which is reduced by what was skipped.
iovec after(const void* data, std::size_t bytes, std::size_t& skip) noexcept {
  const std::size_t s = std::min(skip, bytes);
  skip -= s;
  return {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + s, bytes - s};
}

}  // namespace

void ControlChannel::attach(Socket* socket) noexcept {
  socket_ = socket;
  greeting_ = {.kind = FrameKind::Resume, .note = received_};
  greeting_sent_ = 0;
  their_greeting_have_ = 0;
  resumed_ = false;
  at_beginning_ = log_ && log_->written() == 0;
}

void ControlChannel::push(const FrameHeader& header, ConstBuffer payload, Completion* done) {
  if (log_) {
    const std::uint64_t from = log_->end();
    log_->append(&header, sizeof header);
    log_->append(payload.data, payload.bytes);
    if (done != nullptr) logged_.push_back({from, log_->end(), done});
    return;
  }
  if (head_ == frames_.size()) {
    frames_.clear();
    head_ = 0;
  }
  frames_.push_back({header, payload, done});
}

ChannelState ControlChannel::ends(int error) noexcept {
  error_ = error;
  return ChannelState::Ended;
}

std::span<const std::byte> ControlChannel::to_write() const noexcept {
  if (socket_ == nullptr) return {};
  if (greeting_sent_ != sizeof greeting_) return std::as_bytes(std::span(&greeting_, 1)).subspan(greeting_sent_);
  return resumed_ || at_beginning_ ? log_->unsent() : std::span<const std::byte>{};
}

/// What has been written and is the kernel's now.
void ControlChannel::tell_what_left() {
  if (socket_ == nullptr || socket_->wants_write()) return;
  for (Completion* c : leaving_) events_.eager_written(*c);
  leaving_.clear();
  for (; !logged_.empty() && logged_.front().to <= log_->written(); logged_.pop_front()) {
    events_.eager_written(*logged_.front().done);
  }
}

ChannelState ControlChannel::write_log() {
  for (auto next = to_write(); !next.empty(); next = to_write()) {
    const ssize_t n = socket_->send(next);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ends(errno);
    if (greeting_sent_ != sizeof greeting_) {
      greeting_sent_ += static_cast<std::size_t>(n);
    } else {
      log_->sent(static_cast<std::size_t>(n));
    }
    tell_what_left();
  }
  return ChannelState::Open;
}

ChannelState ControlChannel::write() {
  if (socket_ != nullptr) socket_->flush();
  tell_what_left();
  if (log_) return write_log();
  while (has_frames() && socket_ != nullptr) {
    std::array<iovec, kGather> pieces;
    std::size_t count = 0;
    std::size_t skip = head_sent_;
    for (std::size_t i = head_; i < frames_.size() && count + 2 <= kGather; ++i) {
      pieces[count++] = after(&frames_[i].header, sizeof(FrameHeader), skip);
      if (frames_[i].payload.bytes != 0)
        pieces[count++] = after(frames_[i].payload.data, frames_[i].payload.bytes, skip);
    }
    const ssize_t n = socket_->send(std::span(pieces).first(count));
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ends(errno);
    written(static_cast<std::size_t>(n));
  }
  return ChannelState::Open;
}

void ControlChannel::written(std::size_t bytes) {
  head_sent_ += bytes;
  const bool stays = socket_->wants_write();
  while (has_frames() && head_sent_ >= frames_[head_].bytes()) {
    head_sent_ -= frames_[head_].bytes();
    if (Completion* done = frames_[head_].done) {
      if (stays) {
        leaving_.push_back(done);
      } else {
        events_.eager_written(*done);
      }
    }
    ++head_;
  }
  if (head_ > 256 && head_ * 2 > frames_.size()) {
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

bool ControlChannel::take_back_logged(Completion& eager) {
  const auto at = std::ranges::find(logged_, &eager, &Logged::done);
  if (at == logged_.end()) return false;
  const Logged taken = *at;
  const auto rest = logged_.erase(at);
  if (taken.from < log_->written()) {
    events_.eager_written(eager);
    return false;
  }
  log_->remove(taken.from, taken.to);
  for (auto later = rest; later != logged_.end(); ++later) {
    later->from -= taken.to - taken.from;
    later->to -= taken.to - taken.from;
  }
  return true;
}

bool ControlChannel::take_back(Completion& eager) {
  if (log_) return take_back_logged(eager);
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

/// resumed_, unless the peer has not said enough.
ChannelState ControlChannel::read_greeting() {
  auto* into = reinterpret_cast<std::byte*>(&their_greeting_);
  while (their_greeting_have_ != sizeof their_greeting_) {
    const ssize_t n = socket_->receive(std::span(into, sizeof their_greeting_).subspan(their_greeting_have_));
    if (n == 0) return ends(0);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ends(errno);
    their_greeting_have_ += static_cast<std::size_t>(n);
  }
  const std::uint64_t there = their_greeting_.note;
  const bool fits = at_beginning_ ? there == 0 : log_->resume(there);
  resumed_ = their_greeting_.kind == FrameKind::Resume && fits;
  if (resumed_) return ChannelState::Open;
  log::warning("tcp: a control connection that goes on at byte {}: the peer speaks another protocol", there);
  return ends(EPROTO);
}

ChannelState ControlChannel::read(std::span<std::byte> scratch) {
  if (log_ && !resumed_) {
    if (read_greeting() == ChannelState::Ended) return ChannelState::Ended;
    if (!resumed_) return ChannelState::Open;
  }
  for (;;) {
    const std::size_t kept = unfinished_.size();
    if (kept != 0) std::memcpy(scratch.data(), unfinished_.data(), kept);
    const ssize_t n = socket_->receive(scratch.subspan(kept));
    if (n == 0) return ends(0);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ends(errno);
    const auto data = scratch.first(kept + static_cast<std::size_t>(n));
    std::size_t used = 0;
    if (!parse(data, scratch.size(), used)) return ends(EPROTO);
    unfinished_.assign(data.begin() + static_cast<std::ptrdiff_t>(used), data.end());
    received_ += static_cast<std::uint64_t>(n);
    if (log_ && received_ - told_ >= kTellAfter) {
      told_ = received_;
      push({.kind = FrameKind::Heard, .note = received_});
    }
    if (data.size() < scratch.size()) return ChannelState::Open;
  }
}

bool ControlChannel::parse(std::span<const std::byte> data, std::size_t longest, std::size_t& used) {
  while (data.size() - used >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, data.data() + used, sizeof header);
    const std::uint64_t payload = header.kind == FrameKind::Eager ? header.bytes : 0;
    const FrameKind last = log_ ? FrameKind::Heard : FrameKind::Abort;
    if (header.kind < FrameKind::Eager || header.kind > last || payload > longest - sizeof header) {
      log::warning("tcp: a control frame of kind {} with {} bytes: the peer speaks another protocol",
                   static_cast<std::uint32_t>(header.kind), header.bytes);
      return false;
    }
    if (data.size() - used < sizeof header + payload) break;
    if (header.kind == FrameKind::Heard) {
      if (!log_->heard(header.note)) return false;
    } else {
      events_.control_frame(header, data.data() + used + sizeof header);
    }
    used += sizeof header + payload;
  }
  return true;
}

}  // namespace sinew::tcp
