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

/// The facts by which a rank finds the store of its job and authenticates there.
struct Bootstrap {
  int rank = 0;
  int ranks = 1;
  std::vector<SocketAddress> addresses;
  Bytes secret;       ///< for TCP; a server on a UNIX socket sends it
  std::string group;  ///< the name of the World in this process; each World has rounds of its own
};

/// Counts the calls of exchange_from_environment, from 0. All ranks get equal numbers.
int next_world();

/// The address of an abstract socket of this user. Its name is "sinew-UID-WHAT".
SocketAddress user_socket(const std::string& what);

/// A store server in this process. It has a thread of its own.
class HostedStore {
 public:
  HostedStore(int ranks, Bytes secret, const Config& config)
      : secret_(std::move(secret)), tls_(TlsContext::open(config.tls)), ranks_(ranks) {}
  void listen(Listener listener);
  void start();
  /// See StoreServer::lose. Precondition: the server was started.
  /// Thread: any.
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
/// Connects to the store. `hosted` is the server of rank 0. It lives as long as the exchange and the store.
/// Errors: those of StoreClient.
Joined join(const Bootstrap& bootstrap, std::shared_ptr<HostedStore> hosted, const Config& config);

}  // namespace sinew
