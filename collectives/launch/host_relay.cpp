#include <unistd.h>

#include <cerrno>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/host_relay.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/reachable_addresses.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/store/relay_search.hpp>
#include <sinew/core/store/relay_tree.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

/// A rank's connection takes a descriptor of rank 0's process. With this many, a soft limit of 1024 is far away, and
/// one round of the exchange takes a star no longer than a tree.
constexpr int kStarRanks = 256;

/// The relays of this process. A relay serves on while it reaches the store or has clients, because the Worlds of other
/// ranks may outlive that of this process. Each call forgets the relays that are over.
/// The caller holds OfProcess::HostedStores.
std::list<std::shared_ptr<StoreServerThread>>& relays_of_process() {
  static std::list<std::shared_ptr<StoreServerThread>> all;
  all.remove_if([](const auto& relay) { return relay->is_over(); });
  return all;
}

/// nullopt: another process listens there.
std::optional<Listener> listen_first(const SocketAddress& place) {
  try {
    return listen_on(place);
  } catch (const Error&) {
    const int error = try_connect({place}, Deadline::after(std::chrono::seconds(1))).second;
    const bool is_busy = error == EAGAIN || error == ETIMEDOUT;
    const bool has_ended = error == ECONNREFUSED;  // a relay was there, and the search goes on
    if (error == 0 || is_busy || has_ended) return std::nullopt;
    throw;
  }
}

/// Serves the ranks of this host, and the hosts below, if nobody does.
void become_relay_if_first(const StoreClient::Options& root, const SocketAddress& place, const Config& config,
                           Deadline deadline) {
  auto listener = listen_first(place);
  if (!listener) return;
  const auto port = port_of_process({.range = config.ports, .tls = config.tls});
  const RelayIntroduction self{.host = host_name(),
                               .pid = ::getpid(),
                               .rank = root.rank,
                               .addresses = format_addresses(reachable_addresses(config.interface, port->number())),
                               .instance = random_id()};
  const auto relay = std::make_shared<StoreServerThread>(
      StoreServerOptions{.secret = root.secret, .host = StoreHost::Relay, .relay = self});
  relay->listen(std::move(*listener));
  relay->serve(port, self.instance);
  std::this_thread::sleep_for(std::min<Duration>(relay_wait(root.rank), deadline.at() - Clock::now()));
  auto [connection, parent] = find_relay_parent(root, self, deadline);
  relay->lead_to(std::move(connection), parent);
  const ProcessLock lock(OfProcess::HostedStores);
  relays_of_process().push_back(relay);
}

}  // namespace

StartTree start_tree(const Lookup& lookup) {
  const auto text = lookup("SINEW_START_TREE");
  if (!text) return {kRelayFanOut, kStarRanks + 1};
  const auto tree = parse_number_pair<int>(*text);
  if (!tree || tree->first < 1 || tree->second < 1)
    throw Error(Code::InvalidArgument,
                fmt::format("SINEW_START_TREE={}: expected FAN_OUT:RANKS, two whole numbers of 1 to {}, such as {}:{}",
                            shown_value(*text), std::numeric_limits<int>::max(), kRelayFanOut, kStarRanks + 1));
  return {tree->first, tree->second};
}

StoreClient::Options through_host_relay(StoreClient::Options options, const Config& config, Deadline deadline) {
  // Two jobs of one user may have the same port and name on different hosts. The name of the socket tells them apart.
  const std::string of_store = fmt::format("{} {}", options.instance, format_addresses(options.addresses));
  const SocketAddress place = user_socket("relay-" + secret_name(options.secret, of_store));
  const StoreClient::Options root = options;
  become_relay_if_first(root, place, config, deadline);
  options.addresses = {place};
  // If the relay ends before it has served this rank, this rank takes its place.
  options.may_come = [root, place, config, deadline] {
    become_relay_if_first(root, place, config, deadline);
    return !root.may_come || root.may_come();
  };
  return options;
}

}  // namespace sinew
