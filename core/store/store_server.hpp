#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/core/store/relay_tree.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {

struct StoreServerOptions {
  Bytes secret;   ///< the job's secret; sent to clients of this user on the UNIX socket
  int ranks = 0;  ///< the size of the job, if known: a client that names another size is refused
  StoreHost host = StoreHost::Rank;
  std::string elsewhere;  ///< not empty: UNIX clients are only told that the store is at these addresses
  std::size_t longest_request = 64ull << 20;  ///< bytes; a client that announces more is disconnected
  std::optional<ElasticLimits> elastic{};     ///< of an elastic job, which has no fixed number of ranks
  /// Called once for each exchange that has waited for StoreService::kLate for ranks which have not even connected.
  /// Thread: the loop's.
  std::function<void(const std::string& missing)> notice{};
  int fan_out = kRelayFanOut;  ///< the most relays that have the same parent
  /// This process: it is a relay (host is StoreHost::Relay, or Launcher) and leads to a store elsewhere. The server
  /// answers once lead_to() has given it its parent.
  std::optional<RelayIntroduction> relay{};
  /// For a relay that does not reach the store any more. Its owner then accepts no further connections for it: they may
  /// be of a later start. Thread: the loop's.
  std::function<void()> cut{};
};

/// Serves a store to the processes of a job, on its owner's loop. Clients of this host connect to a UNIX socket. Other
/// clients connect to a ListeningPort, which authenticates them. A client may be a relay, which speaks for the ranks of
/// its host and for further relays (ADR 48). The server itself may be a relay.
/// The ranks of a group meet once at a store that a rank serves: whoever comes after all have come is of a later start,
/// and is told to look for the next store. A launcher's store serves all programs that a rank runs one after the other.
/// Thread: the loop's. Cost: for each client a descriptor, and the memory of at most one request.
class SINEW_API StoreServer {
 public:
  StoreServer(EventLoop& loop, StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Serves the processes of this user that connect to a UNIX socket.
  void listen(Listener unix_socket);
  /// Serves an authenticated connection.
  void take(Socket client);
  /// For a relay: `connection` leads to its parent. Requests that have come before go there now. If the connection
  /// ends, all clients get PeerLost with the parent's name. The relay then listens at its UNIX sockets no more.
  void lead_to(Socket connection, const RelayParent& parent);
  /// For a relay: it does not reach the store any more, and its clients have gone. Thread: any.
  bool is_over() const noexcept;
  /// All answers have left this process.
  bool idle() const noexcept;
  /// Returns true if a rank of another process has left or was refused, and connected ranks have not been told. After
  /// a refusal this counts ranks that have not come yet, too.
  bool has_untold_ranks() const;
  /// Ends the waits for `rank`, now and later, with PeerLost and `why`.
  void lose(int rank, const std::string& why);
  /// For an elastic job: so many processes run and should come to the first round (ElasticMembers::expect).
  void expect(int processes);
  /// For an elastic job: no round is formed any more. Members that wait for one, now and later, get Aborted with `why`.
  void end_rounds(const std::string& why);
  /// Notices also show what `refused` returns: the connections that were refused (ListeningPort::refused).
  void ask_for_refused(std::function<std::string()> refused);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A StoreServer with a loop and a thread of its own that blocks all signals.
/// Lifetime: the end waits until all answers have gone out, and all ranks have been told why a start has failed, 5 s at
///           most.
/// Thread:   any.
class SINEW_API StoreServerThread {
 public:
  explicit StoreServerThread(StoreServerOptions options);
  ~StoreServerThread();
  /// As StoreServer::listen.
  void listen(Listener unix_socket);
  /// Serves the connections that come to the port for the store with this number (AuthClaim::instance).
  void serve(std::shared_ptr<ListeningPort> port, std::uint64_t instance);
  /// As StoreServer::lead_to. If the relay is cut off, it accepts no connections at its port any more, either.
  void lead_to(Socket connection, const RelayParent& parent);
  /// As StoreServer::is_over.
  bool is_over() const noexcept { return server_.is_over(); }
  /// As StoreServer::lose.
  void lose(int rank, const std::string& why);
  /// As StoreServer::expect.
  void expect(int processes);
  /// As StoreServer::end_rounds.
  void end_rounds(const std::string& why);
  StoreServerThread(const StoreServerThread&) = delete;
  StoreServerThread& operator=(const StoreServerThread&) = delete;

 private:
  void run();
  /// Returns the options with a `cut` that ends the service at the port.
  StoreServerOptions with_cut(StoreServerOptions options);

  const Bytes secret_;
  ForkMark fork_;
  EventLoop loop_;
  StoreServer server_;
  std::thread thread_;
  std::shared_ptr<ListeningPort> port_;
  ListeningPort::Service service_;  // destroyed first, since it posts to the loop
};

}  // namespace sinew
