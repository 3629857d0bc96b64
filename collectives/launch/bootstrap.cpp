#include <unistd.h>

#include <atomic>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>

namespace sinew {
namespace {

/// The store of a world as its exchange and its user hold it: whoever holds it keeps rank 0's server alive.
struct Attendance {
  std::shared_ptr<HostedStore> hosted;  // ends after the client has gone
  StoreClient client;
};

}  // namespace

int next_world() {
  static std::atomic<int> count{0};
  return count.fetch_add(1, std::memory_order_relaxed);
}

SocketAddress user_socket(const std::string& what) {
  return SocketAddress::abstract(fmt::format("sinew-{}-{}", ::geteuid(), what));
}

void HostedStore::listen(Listener listener) {
  addresses_.push_back(listener.address);
  waiting_.push_back(std::move(listener));
}

void HostedStore::start() {
  thread_ = std::make_unique<StoreServerThread>(StoreServerOptions{.secret = secret_, .ranks = ranks_, .tls = tls_});
  for (Listener& l : waiting_) thread_->listen(std::move(l));
  waiting_.clear();
}

Joined join(const Bootstrap& bootstrap, std::shared_ptr<HostedStore> hosted, const Config& config) {
  StoreClient::Options options;
  options.addresses = bootstrap.addresses;
  options.secret = bootstrap.secret;
  options.tls = TlsContext::open(config.tls);
  options.group = bootstrap.group;
  options.rank = bootstrap.rank;
  options.ranks = bootstrap.ranks;
  options.timeout = config.timeout;
  const std::shared_ptr<Attendance> held(
      new Attendance{std::move(hosted), StoreClient(std::move(options), Deadline::after(config.timeout))});
  Joined joined;
  joined.store = std::shared_ptr<StoreClient>(held, &held->client);
  joined.exchange.rank = bootstrap.rank;
  joined.exchange.size = bootstrap.ranks;
  joined.exchange.all_gather = [store = joined.store, name = "start-up of " + bootstrap.group, rank = bootstrap.rank,
                                ranks = bootstrap.ranks](const Bytes& mine) {
    return store->all_gather(name, rank, ranks, mine);
  };
  joined.exchange.check = [store = joined.store] { store->roll_call(); };
  return joined;
}

}  // namespace sinew
