#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/data_channel.hpp>

namespace sinew::tcp {
namespace {

constexpr std::size_t kReadBudget = 8 << 20;  // then the other connections have their turn

}  // namespace

ChannelState DataChannel::write() {
  while (socket_ >= 0 && (current_.active || next_frame())) {
    const std::size_t header_left = sizeof(FrameHeader) - std::min(current_.sent, sizeof(FrameHeader));
    const std::size_t payload_sent = current_.sent - (sizeof(FrameHeader) - header_left);
    std::array<iovec, 2> pieces = {
        iovec{reinterpret_cast<std::byte*>(&current_.header) + (sizeof(FrameHeader) - header_left), header_left},
        iovec{const_cast<std::byte*>(current_.payload) + payload_sent, current_.header.bytes - payload_sent}};
    msghdr message{};
    message.msg_iov = pieces.data() + (header_left == 0 ? 1 : 0);
    message.msg_iovlen = header_left == 0 ? 1 : 2;
    const ssize_t n = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ChannelState::Ended;
    current_.sent += static_cast<std::size_t>(n);
    if (current_.sent == sizeof(FrameHeader) + current_.header.bytes) frame_written();
  }
  return ChannelState::Open;
}

bool DataChannel::next_frame() {
  current_ = {};
  if (!aborts_.empty()) {
    current_.header = {.kind = FrameKind::Abort, .id = aborts_.back()};
    aborts_.pop_back();
    return current_.active = true;
  }
  Completion* c = turns_.pop();
  if (c == nullptr) return false;
  const Send& s = c->as<Send>();
  current_.send = c;
  current_.header = {.kind = FrameKind::Data, .id = s.receiver, .bytes = std::min(s.left, kDataFrameBytes)};
  current_.payload = s.from;
  return current_.active = true;
}

void DataChannel::frame_written() {
  current_.active = false;
  Completion* c = std::exchange(current_.send, nullptr);
  if (c == nullptr) return;
  Send& s = c->as<Send>();
  s.from += current_.header.bytes;
  s.left -= current_.header.bytes;
  s.left == 0 ? events_.data_written(*c) : turns_.push(*c);
}

bool DataChannel::take_back(Completion& send) {
  const Send& s = send.as<Send>();
  if (&send != current_.send) {
    turns_.remove(send);
    aborts_.push_back(s.receiver);
    return true;
  }
  // The frame must be finished: from a copy.
  rest_.assign(current_.payload, current_.payload + current_.header.bytes);
  current_.payload = rest_.data();
  current_.send = nullptr;
  if (s.left == current_.header.bytes) return false;
  aborts_.push_back(s.receiver);
  return true;
}

ChannelState DataChannel::read(std::span<std::byte> scratch) {
  for (std::size_t total = 0; total < kReadBudget;) {
    std::array<iovec, 2> pieces;
    std::size_t count = 0;
    std::size_t payload = 0;
    if (payload_left_ != 0) {
      Incoming& in = *events_.incoming(number_);
      const Buffer place = in.receive ? Matcher::place(*in.receive) : Buffer{};
      const std::size_t carry = in.carry.size();
      if (carry != 0) std::memcpy(scratch.data(), in.carry.data(), carry);
      payload = place.data ? payload_left_ : std::min(payload_left_, scratch.size() - carry);
      pieces[count++] = {place.data ? place.data : scratch.data() + carry, payload};
    }
    std::size_t wanted = payload;
    if (payload == payload_left_) {  // the next header may come along
      pieces[count++] = {reinterpret_cast<std::byte*>(&header_) + header_have_, sizeof header_ - header_have_};
      wanted += sizeof header_ - header_have_;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t n = ::recvmsg(socket_, &message, 0);
    if (n == 0) return ChannelState::Ended;
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ChannelState::Ended;
    const auto got = static_cast<std::size_t>(n);
    total += got;
    if (payload != 0) payload_read(std::min(got, payload), scratch);
    header_have_ += got - std::min(got, payload);
    if (header_have_ == sizeof header_ && !header_read()) return ChannelState::Ended;
    if (got < wanted) return ChannelState::Open;
  }
  return ChannelState::Open;
}

void DataChannel::payload_read(std::size_t bytes, std::span<std::byte> scratch) {
  Incoming& in = *events_.incoming(number_);
  in.begun = true;
  in.left -= bytes;
  payload_left_ -= bytes;
  if (in.receive != nullptr && Matcher::place(*in.receive).data != nullptr) {
    events_.arrived(in, nullptr, bytes);
  } else if (in.receive != nullptr) {
    const std::size_t have = in.carry.size() + bytes;
    const std::size_t whole = have - have % Matcher::element_bytes(*in.receive);
    in.carry.assign(scratch.data() + whole, scratch.data() + have);
    if (whole != 0) events_.arrived(in, scratch.data(), whole);
  }
  if (in.left == 0) events_.ended(number_, false);
}

/// false: not of this protocol.
bool DataChannel::header_read() {
  header_have_ = 0;
  number_ = header_.id;
  Incoming* in = events_.incoming(number_);
  const bool data = header_.kind == FrameKind::Data && in != nullptr && header_.bytes <= in->left &&
                    (header_.bytes != 0 || in->left == 0);
  if (!data && (header_.kind != FrameKind::Abort || in == nullptr)) {
    log::warning("tcp: a data frame of kind {} with {} bytes for message {:#x}: the peer speaks another protocol",
                 static_cast<std::uint32_t>(header_.kind), header_.bytes, header_.id);
    return false;
  }
  if (!data) {
    events_.ended(number_, true);
  } else if (header_.bytes == 0) {
    if (in->receive != nullptr) events_.arrived(*in, nullptr, 0);
    events_.ended(number_, false);
  }
  payload_left_ = data ? header_.bytes : 0;
  return true;
}

}  // namespace sinew::tcp
