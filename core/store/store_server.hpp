#pragma once

#include <memory>
#include <string>
#include <thread>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/net/tls_context.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {

struct StoreServerOptions {
  Bytes secret;                             ///< TCP clients prove it, UNIX clients of the same user are told it
  int ranks = 0;                            ///< of the job, if known: whoever says otherwise is refused
  std::shared_ptr<const TlsContext> tls{};  ///< of TCP clients; null: plain
  StoreHost host = StoreHost::Rank;
  std::string elsewhere;                      ///< not empty: tells UNIX clients where the store is, and serves none
  std::size_t longest_request = 64ull << 20;  ///< bytes; a client that announces more is cut off
};

/// Serves a store to the processes of a job, on a loop that is its owner's.
/// Thread: the loop's. Cost: a client holds a descriptor and at most one request; a stranger a place (strangers.hpp).
class SINEW_API StoreServer {
 public:
  StoreServer(EventLoop& loop, StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  void listen(Listener listener);
  /// All answers have left this process.
  bool idle() const noexcept;
  /// Ends the waits for `rank`, now and later, with PeerLost and `why`.
  void lose(int rank, const std::string& why);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A StoreServer with a loop and a thread of its own that blocks all signals.
/// Lifetime: the end waits until all answers have gone out, 5 s at most.
/// Thread:   any.
class SINEW_API StoreServerThread {
 public:
  explicit StoreServerThread(StoreServerOptions options);
  ~StoreServerThread();
  /// As StoreServer::listen.
  void listen(Listener listener);
  /// As StoreServer::lose.
  void lose(int rank, const std::string& why);
  StoreServerThread(const StoreServerThread&) = delete;
  StoreServerThread& operator=(const StoreServerThread&) = delete;

 private:
  void run();

  ForkMark fork_;
  EventLoop loop_;
  StoreServer server_;
  std::thread thread_;
};

}  // namespace sinew
