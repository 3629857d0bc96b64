#include <unistd.h>

#include <atomic>
#include <limits>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/host_relay.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

/// The store of a world as its exchange and its user hold it: whoever holds it keeps rank 0's server alive.
struct Attendance {
  std::shared_ptr<HostedStore> hosted;  // ends after the client has gone
  StoreClient client;
};

std::string in_seconds(Duration d) { return fmt::format("{:g} s", std::chrono::duration<double>(d).count()); }

}  // namespace

int next_world() {
  static std::atomic<int> count{0};
  return count.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t store_number(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash & ~(std::uint64_t{1} << 63);
}

SocketAddress user_socket(const std::string& what) {
  return SocketAddress::abstract(fmt::format("sinew-{}-{}", ::geteuid(), what));
}

std::string until_timeout(const Config& config) {
  return fmt::format("until SINEW_TIMEOUT ({}) is over", in_seconds(config.timeout));
}

bool is_told_of(const Config& config) { return config.timeout > SearchNotice::kAfter * 3 / 2; }

std::shared_ptr<SearchNotice> search_notice(int rank, std::shared_ptr<const SearchHint> hint, const Config& config) {
  auto notice = std::make_shared<SearchNotice>();
  if (!is_told_of(config)) return notice;
  notice->at = Clock::now() + SearchNotice::kAfter;
  notice->say = [rank, hint = std::move(hint), until = until_timeout(config)](const std::string& findings) {
    log::warning("rank {} on {} has not found rank 0 within {}{}: {}; {}; this rank looks for it {}", rank, host_name(),
                 in_seconds(SearchNotice::kAfter), hint->where.empty() ? "" : " at " + hint->where, findings,
                 hint->cure, until);
  };
  return notice;
}

HostedStore::HostedStore(int ranks, Bytes secret, const Config& config, std::string hint)
    : port_{.range = config.ports, .tls = config.tls},
      thread_({.secret = std::move(secret),
               .ranks = ranks,
               .notice =
                   [hint = std::move(hint), until = until_timeout(config)](const std::string& missing) {
                     log::warning(
                         "{}{}{}; see what the missing ranks have printed, and whether they were started; the others "
                         "wait {}",
                         missing, hint.empty() ? "" : "; ", hint, until);
                   },
               .fan_out = start_tree().fan_out}) {}

std::uint16_t HostedStore::serve(std::uint64_t store, std::uint16_t number, int tries) {
  for (port_.number = number;; ++port_.number) {
    try {
      auto port = port_of_process(port_);
      const std::uint16_t taken = port->number();
      thread_.serve(std::move(port), store);
      return taken;
    } catch (const Error& e) {
      if (e.code() != Code::System || --tries <= 0 || port_.number == std::numeric_limits<std::uint16_t>::max()) throw;
    }
  }
}

Joined join(const Bootstrap& bootstrap, std::shared_ptr<HostedStore> hosted, const Config& config) {
  StoreClient::Options options;
  options.addresses = bootstrap.addresses;
  options.secret = bootstrap.secret;
  options.tls = TlsContext::open(config.tls);
  options.instance = bootstrap.store;
  options.group = bootstrap.group;
  options.rank = bootstrap.rank;
  options.ranks = bootstrap.ranks;
  options.timeout = config.timeout;
  options.may_come = bootstrap.may_come;
  options.notice = bootstrap.notice;
  if (!options.notice) {
    const SearchHint hint{.where = "", .cure = "does a firewall let this host connect to that of rank 0?"};
    options.notice = search_notice(bootstrap.rank, std::make_shared<const SearchHint>(hint), config);
  }
  const Deadline deadline = Deadline::after(config.timeout);
  const bool over_tcp = !hosted && !options.addresses.empty() && !options.addresses.front().is_unix();
  if (over_tcp && bootstrap.may_use_relays && bootstrap.ranks >= start_tree().from_ranks)
    options = through_host_relay(std::move(options), config, deadline);
  const std::shared_ptr<Attendance> held(new Attendance{std::move(hosted), StoreClient(std::move(options), deadline)});
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
