#pragma once

#include <memory>
#include <string>
#include <utility>

#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/store_seat.hpp>

namespace sinew {

/// A connection to a StoreServer: one client, or a relay with all its clients.
/// Memory: at most one request, and the replies that wait.
class StoreConnection final : public StoreSeat {
 public:
  /// `longest_request`: the most bytes of a request. A client that announces more is disconnected.
  StoreConnection(Socket socket, std::size_t longest_request) : stream_(std::move(socket), longest_request) {}

  int descriptor() const noexcept { return stream_.descriptor(); }
  EventLoop::Interest interest() const noexcept { return {.read = !closing_, .write = stream_.interest().write}; }
  /// Calls `take` for each whole request.
  template <class F>
  void read(F&& take) {
    if (closing_) return;
    stream_.read([&](const Bytes& request) {
      if (parked) return stream_.end(kSecondRequest);
      if (!closing_) take(request);
    });
  }
  /// Queues and writes as much as the socket takes.
  void send(std::shared_ptr<const Bytes> frame) override { stream_.send(std::move(frame)); }
  void flush() { stream_.flush(); }
  void close_after_flush() noexcept override { closing_ = true; }
  bool finished() const noexcept { return stream_.ended() || (closing_ && idle()); }
  bool idle() const noexcept { return stream_.idle(); }
  /// Changes `longest_request`.
  void allow(std::size_t longest_request) noexcept { stream_.allow(longest_request); }
  void end(std::string reason) { stream_.end(std::move(reason)); }
  /// The reason why the stream has ended.
  const std::string& reason() const noexcept { return stream_.reason(); }

 private:
  FramedStream stream_;
  bool closing_ = false;
};

}  // namespace sinew
