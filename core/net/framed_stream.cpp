#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/framed_stream.hpp>

namespace sinew {
namespace {

constexpr std::size_t kStride = 64 << 10;  // bytes of one read

}  // namespace

std::shared_ptr<const Bytes> FramedStream::frame(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::size_t bytes = head.size() + body.size();
  if (bytes > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(Code::InvalidArgument, fmt::format("a message of {} bytes: expected less than 4 GiB", bytes));
  }
  auto frame = std::make_shared<Bytes>();
  frame->reserve(kHeaderBytes + bytes);
  frame->resize(kHeaderBytes);
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(frame->data(), &length, sizeof length);
  frame->insert(frame->end(), head.begin(), head.end());
  frame->insert(frame->end(), body.begin(), body.end());
  return frame;
}

FramedStream::FramedStream(Socket socket, std::size_t longest) noexcept
    : socket_(std::move(socket)), longest_(longest) {}

void FramedStream::read(const Take& take) {
  while (!ended_ && fill()) {
    if (!whole()) continue;
    header_bytes_ = 0;
    take(std::exchange(in_, {}));
  }
}

/// Reads once, at most to the end of the current message. Returns false if there is nothing to read now or the stream
/// has ended.
bool FramedStream::fill() {
  const bool in_header = header_bytes_ < kHeaderBytes;
  const std::size_t had = in_.size();
  std::span<std::byte> room = std::as_writable_bytes(std::span(&length_, 1)).subspan(in_header ? header_bytes_ : 0);
  if (!in_header) {
    in_.resize(had + std::min(kStride, length_ - had));
    room = std::span(in_).subspan(had);
  }
  ssize_t got = 0;
  do {
    got = socket_.receive(room);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  const auto bytes = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  if (in_header) {
    header_bytes_ += bytes;
  } else {
    in_.resize(had + bytes);
  }
  if (got == 0) end("the other side has closed the connection");
  if (got < 0 && !is_for_later(error)) end(error == EPROTO ? socket_.trouble() : std::strerror(error), error);
  if (in_header && header_bytes_ == kHeaderBytes && length_ > longest_) {
    broken_ = true;
    end(fmt::format("a message of {} bytes was announced: expected at most {}", length_, longest_));
  }
  return got > 0 && !ended_;
}

void FramedStream::send(std::shared_ptr<const Bytes> frame) {
  if (ended_ || finishing_) return;
  out_.push_back(std::move(frame));
  flush();
}

void FramedStream::flush() {
  if (ended_) return;
  socket_.flush();
  while (!out_.empty()) {
    const Bytes& front = *out_.front();
    const ssize_t sent = socket_.send(std::span(front).subspan(written_));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && is_for_later(errno)) return;
    if (sent < 0) {
      const int error = errno;
      return end(error == EPROTO ? socket_.trouble() : std::strerror(error), error);
    }
    written_ += static_cast<std::size_t>(sent);
    if (written_ < front.size()) continue;
    out_.pop_front();
    written_ = 0;
  }
  // The other side closes the connection. If this side closed it while bytes come in, the kernel would reset it, and
  // the messages that were sent last could be lost.
  if (finishing_ && !finished_) finished_ = socket_.finish();
}

void FramedStream::finish() {
  finishing_ = true;
  flush();
}

void FramedStream::end(std::string reason, int error) {
  if (std::exchange(ended_, true)) return;
  reason_ = std::move(reason);
  error_ = error;
  out_.clear();
  written_ = 0;
}

}  // namespace sinew
