#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  Bytes secret;                            ///< needed for TCP only: a server at a UNIX socket tells the secret itself
  std::string group;                       ///< the name of the World in this process; each World has rounds of its own
  std::uint64_t store = 0;                 ///< for TCP: the store's number at its port
  std::function<bool()> may_come{};        ///< returns false if rank 0 is not there any more: join() ends with PeerLost
  std::shared_ptr<SearchNotice> notice{};  ///< null: join() makes one without a hint
  /// The rank may reach the store through a relay of its host, which is another rank (ADR 48). False where ranks
  /// outlive each other.
  bool may_use_relays = true;
};

/// The text that a rank adds to its findings when it looks for rank 0 in vain.
struct SearchHint {
  std::string where;  ///< the variables that say where rank 0 is; may be empty
  std::string cure;
};
/// The last words of a warning. They say how long the rank goes on waiting.
std::string until_timeout(const Config& config);
/// Returns whether a long wait is warned of after SearchNotice::kAfter. It is not if the timeout ends it soon after.
bool is_told_of(const Config& config);
/// Logs one warning after a while of looking for rank 0. The hint may change until then.
std::shared_ptr<SearchNotice> search_notice(int rank, std::shared_ptr<const SearchHint> hint, const Config& config);

/// Counts the calls of exchange_from_environment, from 0. All ranks get equal numbers.
int next_world();

/// Computes the number of a store from its name. So two jobs that share a port and a secret have different stores if
/// their names differ. The highest bit of the number is 0.
std::uint64_t store_number(std::string_view name);

/// The address of an abstract socket of this user. Its name is "sinew-UID-WHAT".
SocketAddress user_socket(const std::string& what);

/// A store server in this process, with a thread of its own.
/// Thread: any.
class HostedStore {
 public:
  /// hint: a likely reason why ranks do not come. The warning that they are missing shows it. May be empty.
  HostedStore(int ranks, Bytes secret, const Config& config, std::string hint = {});
  /// Serves processes of this user at a UNIX socket.
  void listen(Listener unix_socket) { thread_.listen(std::move(unix_socket)); }
  /// Serves processes of other hosts at this process's port. `store` is the number of this store; stores of one port
  /// have different numbers. `number` is the number of the port; 0 means one of SINEW_PORTS. If another program listens
  /// there, the next port is tried, `tries` ports in all. Returns the port's number.
  std::uint16_t serve(std::uint64_t store, std::uint16_t number = 0, int tries = 1);
  /// Does the same as StoreServer::lose.
  void lose(int rank, const std::string& why) { thread_.lose(rank, why); }

 private:
  PortSettings port_;
  StoreServerThread thread_;
};

struct Joined {
  Exchange exchange;
  std::shared_ptr<StoreClient> store;
};
/// Connects to the store. `hosted` is the server of rank 0. It lives as long as the exchange and the store.
/// Errors: those of StoreClient.
Joined join(const Bootstrap& bootstrap, std::shared_ptr<HostedStore> hosted, const Config& config);

}  // namespace sinew
