#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/core/store/server_search.hpp>
#include <sinew/core/store/store.hpp>
#include <sinew/core/store/store_protocol.hpp>

namespace sinew {

/// A StoreServer's store, seen through one connection.
class SINEW_API StoreClient final : public Store {
 public:
  struct Options {
    std::vector<SocketAddress> addresses;     ///< of the server, tried in turn until one answers
    Bytes secret;                             ///< for TCP; a UNIX server hands it out
    std::shared_ptr<const TlsContext> tls{};  ///< for TCP; null: plain
    std::uint64_t instance = 0;               ///< for TCP: number of the store (StoreServerThread::serve)
    std::string group;                        ///< the world whose rank this is
    int rank = -1;                            ///< -1: of no world; takes no part in all_gather
    int ranks = 0;
    Duration timeout = std::chrono::minutes(5);  ///< of calls without a deadline
    std::function<bool()> may_come{};            ///< false: its server is gone, and nobody will answer
    std::shared_ptr<SearchNotice> notice{};      ///< of the search for the server
  };

  /// Tries until the server answers. A server whose group has met already is of an earlier start: another server may
  /// follow at the same address. Errors: Timeout saying where nobody listened; Mismatch if it refuses the secret,
  /// the number of ranks, or a second process with this rank; PeerLost if `may_come` says so.
  StoreClient(Options options, Deadline deadline);

  /// Who serves at a UNIX address; nullopt where nobody listens. Errors: Mismatch if it is another user or no store;
  /// Timeout where somebody listens but does not say who it is.
  static std::optional<StoreWelcome> who_serves(const SocketAddress& address, Deadline deadline);

  /// For a relay: connects to the server at one of these addresses, and presents itself. Returns the connection and the
  /// server's answer. Errors: those of the constructor.
  static std::pair<Socket, RelayParent> attach(Options options, const RelayIntroduction& relay, Deadline deadline);

  /// Who serves it; for TCP servers a rank is assumed.
  const StoreWelcome& server() const noexcept { return server_; }
  /// The job's secret: as given, or as the server of a UNIX socket said.
  const Bytes& secret() const noexcept { return options_.secret; }
  /// The addresses of the store, for other clients: as given, or as the server of a UNIX socket said.
  const std::vector<SocketAddress>& addresses() const noexcept { return options_.addresses; }

  void set(std::string_view key, std::span<const std::byte> value, Deadline deadline = {}) override;
  Bytes get(std::string_view key, Deadline deadline = {}) override;
  void wait(std::span<const std::string> keys, Deadline deadline = {}) override;
  std::int64_t add(std::string_view key, std::int64_t amount, Deadline deadline = {}) override;
  bool compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                       std::span<const std::byte> desired, Deadline deadline = {}) override;
  bool erase(std::string_view key, Deadline deadline = {}) override;
  std::vector<Bytes> all_gather(std::string_view name, int rank, int ranks, std::span<const std::byte> mine,
                                Deadline deadline = {}) override;
  /// For who waits for ranks of its group by other means. Errors: PeerLost naming one of them that has ended or left.
  void roll_call(Deadline deadline = {});
  /// Waits until the server of an elastic job has formed a round with this process.
  /// Errors: Unavailable if the job is not elastic. Those of ElasticMembers::wait. Timeout with what the round waits
  ///         for.
  FormedRound next_round(const MemberRequest& request, Deadline deadline);
  /// True if the job could go on with more ranks than it has. Errors: Unavailable if the job is not elastic.
  bool is_change_due(Deadline deadline = {});

 private:
  StoreClient() = default;
  void connect(Deadline deadline);
  /// Connects, and makes the first request. Returns the fields of the answer.
  Bytes introduce(StoreOp op, const Bytes& fields, Deadline deadline);
  /// Uses this connection from now on. On a UNIX socket it first receives the server's StoreWelcome. Returns an empty
  /// string, or the reason why this server does not serve the client now.
  std::string greet(Socket socket, const SocketAddress& address, Deadline deadline);
  /// One round trip; the fields of the answer.
  Bytes ask(StoreOp op, const Bytes& fields, Deadline deadline);
  Bytes ask_locked(StoreOp op, const Bytes& fields, Deadline deadline);
  void send(std::shared_ptr<const Bytes> frame, Deadline deadline);
  Bytes receive(Deadline deadline);
  void move_on();
  /// Waits until the socket has bytes, or has room for bytes that wait. Returns false if the deadline has passed.
  bool wait(Deadline deadline);
  [[noreturn]] void lost(const std::string& how);

  Options options_;
  StoreWelcome server_;
  std::mutex mutex_;
  std::optional<FramedStream> stream_;
  std::deque<Bytes> replies_;
  SocketAddress peer_;
  std::string found_before_;  ///< a server that did not serve this client, and why
  std::string broken_;        ///< why this connection cannot be used any more
};

/// The address list that StoreWelcome and launchers write: comma-separated.
SINEW_API std::vector<SocketAddress> parse_addresses(std::string_view list);
SINEW_API std::string format_addresses(std::span<const SocketAddress> addresses);

}  // namespace sinew
