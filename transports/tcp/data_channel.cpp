#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/data_channel.hpp>

namespace sinew::tcp {
namespace {

constexpr std::size_t kReadBudget = 8 << 20;  // then the other connections have their turn
/// Of a frame with nothing behind it. Without MSG_EOR the kernel keeps back the end of a message that is a little
/// longer than a packet until the card has sent what is before (tcp_autocorking); short messages, on the control
/// connection, are better put together so.
constexpr int kLastOfMessage = MSG_EOR;

}  // namespace

bool DataChannel::write_frame() {
  if (socket_ == nullptr) return false;
  socket_->flush();
  if (socket_->wants_write()) return false;
  if (leaving_ != nullptr) events_.data_written(*std::exchange(leaving_, nullptr));
  if (!active_) {
    if (outgoing_.empty()) return false;
    begin_frame();
  }
  const std::size_t all = sizeof(FrameHeader) + piece_.bytes;
  while (out_sent_ != all) {
    const std::size_t header_sent = std::min(out_sent_, sizeof(FrameHeader));
    const std::size_t payload_sent = out_sent_ - header_sent;
    std::array<iovec, 2> pieces = {
        iovec{reinterpret_cast<std::byte*>(&out_header_) + header_sent, sizeof(FrameHeader) - header_sent},
        iovec{const_cast<std::byte*>(piece_.from) + payload_sent, piece_.bytes - payload_sent}};
    const bool whole_header = header_sent == sizeof(FrameHeader);
    const ssize_t n =
        socket_->send(std::span(pieces).subspan(whole_header ? 1 : 0), outgoing_.empty() ? kLastOfMessage : 0);
    if (n < 0) return false;  // reading will find the end of one that has ended
    out_sent_ += static_cast<std::size_t>(n);
  }
  active_ = false;
  const bool is_last = piece_.send != nullptr && !remembers_ && piece_.send->as<Send>().left == 0;
  if (socket_->wants_write()) {
    if (is_last) leaving_ = piece_.send;
    return false;
  }
  if (is_last) events_.data_written(*piece_.send);
  return true;
}

void DataChannel::begin_frame() {
  piece_ = outgoing_.next();
  out_header_ = {.kind = FrameKind::Data, .id = piece_.receiver, .note = piece_.at, .bytes = piece_.bytes};
  out_sent_ = 0;
  active_ = true;
  if (remembers_) sent_.push_back({frames_out_, piece_});
  ++frames_out_;
}

void DataChannel::let_go(const Completion& send) {
  if (leaving_ == &send) leaving_ = nullptr;
  if (active_ && piece_.send == &send) {
    // The frame must be finished: from a copy.
    rest_.assign(piece_.from, piece_.from + piece_.bytes);
    piece_.from = rest_.data();
    piece_.send = nullptr;
  }
  for (Sent& s : sent_) {
    if (s.piece.send == &send) s.piece.send = nullptr;
  }
}

void DataChannel::forget(std::uint32_t receiver) {
  std::erase_if(sent_, [receiver](const Sent& s) { return s.piece.receiver == receiver; });
}

Received DataChannel::stop() {
  socket_ = nullptr;
  leaving_ = nullptr;
  active_ = false;
  Received r{frames_in_, 0};
  if (payload_left_ != 0) {
    r.bytes = header_.bytes - payload_left_ - carry_.size();
    events_.incoming(number_)->left += carry_.size();
  }
  payload_left_ = 0;
  carry_.clear();
  return r;
}

std::vector<Piece> DataChannel::take_missing(const Received& there) {
  std::vector<Piece> all;
  for (const Sent& s : sent_) {
    if (s.number < there.frames) continue;
    const std::size_t had = s.number == there.frames ? std::min<std::size_t>(there.bytes, s.piece.bytes) : 0;
    Piece p = s.piece;
    p.at += had;
    p.bytes -= had;
    if (p.from != nullptr) p.from += had;
    all.push_back(p);
  }
  sent_.clear();
  return all;
}

ChannelState DataChannel::ends(int error) noexcept {
  error_ = error;
  return ChannelState::Ended;
}

ChannelState DataChannel::read(std::span<std::byte> scratch) {
  for (std::size_t total = 0;;) {
    const bool enough = total >= kReadBudget;
    if (enough && !socket_->holds()) return ChannelState::Open;
    std::array<iovec, 2> pieces;
    std::size_t count = 0;
    std::size_t payload = 0;
    if (payload_left_ != 0) {
      const Incoming& in = *events_.incoming(number_);
      const bool in_place = in.receive != nullptr && in.into != nullptr;
      if (!carry_.empty()) std::memcpy(scratch.data(), carry_.data(), carry_.size());
      payload = in_place ? payload_left_ : std::min(payload_left_, scratch.size() - carry_.size());
      pieces[count++] = {in_place ? in.into + at_ : scratch.data() + carry_.size(), payload};
    }
    std::size_t wanted = payload;
    if (payload == payload_left_) {  // the next header may come along
      pieces[count++] = {reinterpret_cast<std::byte*>(&header_) + header_have_, sizeof header_ - header_have_};
      wanted += sizeof header_ - header_have_;
    }
    const ssize_t n =
        socket_->receive(std::span(pieces).first(count), enough ? Socket::From::Held : Socket::From::Kernel);
    if (n == 0) return ends(0);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? ChannelState::Open : ends(errno);
    const auto got = static_cast<std::size_t>(n);
    total += got;
    if (payload != 0) payload_read(std::min(got, payload), scratch);
    header_have_ += got - std::min(got, payload);
    if (header_have_ == sizeof header_ && !header_read()) return ends(EPROTO);
    if (got < wanted) return ChannelState::Open;
  }
}

void DataChannel::payload_read(std::size_t bytes, std::span<std::byte> scratch) {
  Incoming& in = *events_.incoming(number_);
  in.begun = true;
  in.left -= bytes;
  payload_left_ -= bytes;
  if (payload_left_ == 0) ++frames_in_;
  if (in.receive == nullptr) {
    carry_.clear();
    at_ += bytes;
  } else if (in.into != nullptr) {
    events_.arrived(in, at_, nullptr, bytes);
    at_ += bytes;
  } else {
    const std::size_t have = carry_.size() + bytes;
    const std::size_t whole = have - have % Matcher::element_bytes(*in.receive);
    carry_.assign(scratch.data() + whole, scratch.data() + have);
    if (whole != 0) events_.arrived(in, at_, scratch.data(), whole);
    at_ += whole;
  }
  if (in.left == 0) events_.ended(number_);
}

/// false: not of this protocol.
bool DataChannel::header_read() {
  header_have_ = 0;
  number_ = header_.id;
  Incoming* in = events_.incoming(number_);
  if (header_.kind != FrameKind::Data || in == nullptr || header_.bytes > in->left || header_.note > in->bytes ||
      header_.bytes > in->bytes - header_.note || (header_.bytes == 0 && in->left != 0)) {
    log::warning("tcp: a data frame of kind {} with {} bytes for message {:#x}: the peer speaks another protocol",
                 static_cast<std::uint32_t>(header_.kind), header_.bytes, header_.id);
    return false;
  }
  at_ = header_.note;
  payload_left_ = header_.bytes;
  if (header_.bytes != 0) return true;
  ++frames_in_;
  if (in->receive != nullptr) events_.arrived(*in, 0, nullptr, 0);
  events_.ended(number_);
  return true;
}

}  // namespace sinew::tcp
