#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {

/// A request that waits in the server.
struct ParkedRequest {
  std::vector<std::string> keys;  ///< Get and Wait: not there when it was parked
  bool wants_value = false;
  bool wants_round = false;  ///< NextRound
  std::string gathering;     ///< AllGather: its name
  std::shared_ptr<Gathering> round;
  Deadline deadline;
  Clock::time_point since{};
  Duration allowed{};
};

/// One client of a StoreServer.
/// Memory: at most one request, and the replies that wait. All clients of one all_gather share the same reply.
class StoreConnection {
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
      if (parked) return stream_.end("a client sent a request before it had the answer to the last one");
      if (!closing_) take(request);
    });
  }
  /// Queues and writes as much as the socket takes.
  void send(std::shared_ptr<const Bytes> frame) { stream_.send(std::move(frame)); }
  void flush() { stream_.flush(); }
  /// What is queued goes out, then the connection ends.
  void close_after_flush() noexcept { closing_ = true; }
  bool finished() const noexcept { return stream_.ended() || (closing_ && idle()); }
  bool idle() const noexcept { return stream_.idle(); }

  std::optional<StoreIdentity> identity;
  std::optional<ParkedRequest> parked;
  std::optional<ElasticMembers::Id> member;  ///< set with its first NextRound

 private:
  FramedStream stream_;
  bool closing_ = false;
};

}  // namespace sinew
