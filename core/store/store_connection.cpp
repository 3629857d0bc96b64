#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sinew/core/log.hpp>
#include <sinew/core/store/store_connection.hpp>

namespace sinew {

StoreConnection::StoreConnection(Socket socket, std::optional<Authentication> proof, std::size_t limit)
    : socket_(std::move(socket)), proof_(std::move(proof)), limit_(limit) {}

bool StoreConnection::whole() const {
  std::uint32_t length = 0;
  if (in_.size() < kFrameHeaderBytes) return false;
  std::memcpy(&length, in_.data(), sizeof length);
  return in_.size() == kFrameHeaderBytes + length;
}

/// How much may be read next without going beyond the current message.
std::size_t StoreConnection::next_bytes() {
  if (in_.size() < kFrameHeaderBytes) return kFrameHeaderBytes - in_.size();
  std::uint32_t length = 0;
  std::memcpy(&length, in_.data(), sizeof length);
  if (length > limit_) return 0;
  constexpr std::size_t kStride = 64 << 10;
  return std::min(kStride, kFrameHeaderBytes + length - in_.size());
}

/// Bytes read; 0: nothing there now, or broken_.
ssize_t StoreConnection::receive(std::span<std::byte> room) {
  ssize_t got = 0;
  do {
    got = socket_.receive(room);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (got <= 0 || parked) {  // a client that waits for its answer has nothing to say
    broken_ = true;
    return 0;
  }
  return got;
}

bool StoreConnection::fill() {
  if (broken_ || closing_) return false;
  if (proof_) return prove();
  const std::size_t most = next_bytes();
  if (most == 0) {
    broken_ = true;  // announces more than a request may hold
    return false;
  }
  const std::size_t had = in_.size();
  in_.resize(had + most);
  const ssize_t got = receive(std::span(in_).subspan(had));
  in_.resize(had + static_cast<std::size_t>(got));
  return got != 0;
}

bool StoreConnection::prove() {
  const Proof proof = pump(socket_, *proof_);
  clock.look(socket_, *proof_);
  switch (proof) {
    case Proof::Underway: return false;
    case Proof::Proven: proof_.reset(); return true;
    case Proof::Refused: log::debug("store: a connection was refused: {}", proof_->reason()); [[fallthrough]];
    case Proof::Closed: broken_ = true; return false;
  }
  return false;
}

void StoreConnection::send(std::shared_ptr<const Bytes> message) {
  out_.push_back(std::move(message));
  flush();
}

void StoreConnection::flush() {
  socket_.flush();
  while (!broken_ && !out_.empty()) {
    const Bytes& message = *out_.front();
    const ssize_t sent = socket_.send(std::span(message).subspan(written_));
    if (sent < 0) {
      if (errno == EINTR) continue;
      broken_ = errno != EAGAIN && errno != EWOULDBLOCK;
      return;
    }
    written_ += static_cast<std::size_t>(sent);
    if (written_ < message.size()) continue;
    out_.pop_front();
    written_ = 0;
  }
}

}  // namespace sinew
