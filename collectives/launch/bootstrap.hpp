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
struct Bootstrap {
  int rank = 0;
  int ranks = 1;
  std::vector<SocketAddress> addresses;
  Bytes secret;             ///< for TCP; UNIX servers hand it out
  std::string group;        ///< which world of this process: each has rounds of its own
  std::uint64_t store = 0;  ///< for TCP: the store's number at its port
};

/// Which call of exchange_from_environment this is, from 0: all ranks count alike.
int next_world();

/// An abstract socket's name for this user: "sinew-UID-WHAT".
SocketAddress user_socket(const std::string& what);

/// A store server in this process, with a thread of its own.
/// Thread: any.
class HostedStore {
 public:
  HostedStore(int ranks, Bytes secret, const Config& config);
  /// Serves processes of this user at a UNIX socket.
  void listen(Listener unix_socket) { thread_.listen(std::move(unix_socket)); }
  /// Serves processes of other hosts at this process's port, under a number that tells it from its other stores.
  /// `number`: of the port; 0: one of SINEW_PORTS. Returns the port's number.
  std::uint16_t serve(std::uint64_t store, std::uint16_t number = 0);
  /// As StoreServer::lose.
  void lose(int rank, const std::string& why) { thread_.lose(rank, why); }

 private:
  PortSettings port_;
  StoreServerThread thread_;
};

struct Joined {
  Exchange exchange;
  std::shared_ptr<StoreClient> store;
};
/// Finds the store and comes to it; `hosted` (rank 0's) lives as long as the exchange or the store.
/// Errors: as StoreClient.
Joined join(const Bootstrap& bootstrap, std::shared_ptr<HostedStore> hosted, const Config& config);

}  // namespace sinew
