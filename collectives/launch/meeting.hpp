#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/store/store_server.hpp>

namespace sinew {

/// Where the ranks of a job find its store, and how they know that it is theirs.
struct Meeting {
  int rank = 0;
  int ranks = 1;
  std::vector<SocketAddress> addresses;
  Bytes secret;       ///< for TCP; UNIX servers hand it out
  std::string group;  ///< which world of this process: each has rounds of its own
};

/// Which call of exchange_from_environment this is, from 0: all ranks count alike.
int next_world();

/// An abstract socket's name for this user: "sinew-UID-WHAT".
SocketAddress user_socket(const std::string& what);

/// A store server in this process, with a thread of its own.
class HostedStore {
 public:
  HostedStore(int ranks, Bytes secret, const Config& config)
      : secret_(std::move(secret)), tls_(TlsContext::open(config.tls)), ranks_(ranks) {}
  void listen(Listener listener);
  void start();
  /// As StoreServer::lose. Thread: any, once started.
  void lose(int rank, const std::string& why) { thread_->lose(rank, why); }
  const std::vector<SocketAddress>& addresses() const noexcept { return addresses_; }

 private:
  Bytes secret_;
  std::shared_ptr<const TlsContext> tls_;
  int ranks_;
  std::vector<Listener> waiting_;
  std::vector<SocketAddress> addresses_;
  std::unique_ptr<StoreServerThread> thread_;
};

struct Joined {
  Exchange exchange;
  std::shared_ptr<StoreClient> store;
};
/// Finds the store and comes to it; `hosted` (rank 0's) lives as long as the exchange or the store.
/// Errors: as StoreClient.
Joined join(const Meeting& meeting, std::shared_ptr<HostedStore> hosted, const Config& config);

}  // namespace sinew
