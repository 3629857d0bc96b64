#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/master.hpp>
#include <sinew/collectives/launch/master_host.hpp>
#include <sinew/collectives/launch/munged_secret.hpp>
#include <sinew/collectives/launch/pmi1.hpp>
#include <sinew/collectives/launch/pmix.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>

namespace sinew {
namespace {

/// The variables say that all ranks are on one host. LOCAL_WORLD_SIZE alone does not contradict a MASTER_ADDR of
/// loopback: each agent of torchrun counts its own ranks only. With a secret such ranks meet over TCP, since the
/// address may be the end of a tunnel.
bool is_on_one_host(const LaunchVariables& v, bool has_secret) {
  if (v.local_ranks == v.ranks || v.hosts == 1) return true;
  return names_loopback(v.master_host) && !v.several_hosts && (v.spread.empty() || !has_secret);
}

[[noreturn]] void ask_for_secret_file(const LaunchVariables& v, const std::string& why_no_munge) {
  throw Error(
      Code::Unavailable,
      fmt::format("ranks are on several hosts ({}), so they need a shared secret: {}set SINEW_SECRET_FILE to a file "
                  "with the same random bytes on every host, or start the ranks with sinew-run --hosts. A secret "
                  "could also come from MUNGE, which does not work here ({})",
                  v.spread.empty() ? v.master_said + " is no address of this machine" : v.spread,
                  v.cure.empty() ? "" : v.cure + ", ", why_no_munge));
}

std::string bootstrap_name(std::uint16_t master_port, const std::string& job) {
  if (master_port == 0) return "job-" + job;  // of a launcher that names its jobs
  return job.empty() ? fmt::format("{}", master_port) : fmt::format("{}-{}", master_port, job);
}

/// Whoever has a place; nullopt where it does not say, in time for a message.
std::optional<StoreWelcome> owner_of(const SocketAddress& place) {
  try {
    return StoreClient::who_serves(place, Deadline::after(std::chrono::seconds(5)));
  } catch (const Error& e) {
    if (e.code() != Code::Timeout) throw;
    return std::nullopt;
  }
}

/// Rank 0's UNIX listener. Errors: Error{InvalidArgument} naming the process that has the place.
Listener take_place(const SocketAddress& place, const LaunchVariables& v) {
  try {
    return listen_on(place);
  } catch (const Error&) {
    const auto owner = owner_of(place);
    if (!owner) throw;
    throw Error(
        Code::InvalidArgument,
        fmt::format("rank 0: process {} is rank 0 of {} on this host already; a second job needs another "
                    "MASTER_PORT (or SINEW_JOB)",
                    owner->pid, v.master_port == 0 ? "job " + v.job : fmt::format("MASTER_PORT={}", v.master_port)));
  }
}

/// The services of rank 0 for several hosts.
struct Served {
  std::shared_ptr<HostedStore> store;
  std::shared_ptr<SecretOffer> offer;  ///< null: the ranks have the secret
};

std::uint16_t serve_at_master_port(HostedStore& store, const std::string& name, const LaunchVariables& v) {
  const auto [first, last] = master_ports(v);
  try {
    return store.serve(store_number(name), static_cast<std::uint16_t>(first), last - first + 1);
  } catch (const Error& e) {
    if (e.code() != Code::System) throw;
    throw Error(e.code(), fmt::format("rank 0 can listen at none of the ports {} to {}: {}; choose another MASTER_PORT",
                                      first, last, e.what()));
  }
}

/// Rank 0's store for several hosts. It stays until the process ends, because ranks may come to the next World while
/// the last one is still being taken down, and the port is one for all Worlds. Without a secret it makes one, and MUNGE
/// carries it. `hint`: as for HostedStore.
Served serve_hosts(const SocketAddress& place, const std::string& name, const LaunchVariables& v, Bytes secret,
                   std::shared_ptr<const Munge> munge, std::string hint, const Config& config) {
  const ProcessLock lock(OfProcess::HostedStores);
  static std::map<std::string, Served> by_name;
  Served& served = by_name[name];
  if (served.store) return served;
  if (munge) secret = random_secret();
  auto fresh = std::make_shared<HostedStore>(v.ranks, secret, config, std::move(hint));
  fresh->listen(take_place(place, v));  // first: a second job of this user ends here and takes no port
  const std::uint16_t port = serve_at_master_port(*fresh, name, v);
  if (munge) {
    auto same_port = port_of_process({.number = port, .tls = config.tls});
    served.offer = std::make_shared<SecretOffer>(std::move(same_port), std::move(munge), name, std::move(secret));
  }
  served.store = std::move(fresh);
  return served;
}

/// The secret that rank 0 offers on another host. Later Worlds of this process use the same one.
Bytes munged_secret(const MasterHost& master, const Munge& munge, const std::string& name, const Config& config,
                    const std::shared_ptr<SearchNotice>& notice) {
  static std::map<std::string, Bytes> by_name;
  {
    const ProcessLock lock(OfProcess::HostedStores);
    if (const auto known = by_name.find(name); known != by_name.end()) return known->second;
  }
  Bytes secret = ask_for_secret(master.addresses, munge, name, config, notice);
  const ProcessLock lock(OfProcess::HostedStores);
  return by_name[name] = std::move(secret);
}

/// Does sinew-run serve the store of this job? It may be busy with starting ranks, or stopped, and answer late: a rank
/// that took this for "no" would wait at another place.
bool launcher_serves(const SocketAddress& place, const LaunchVariables& v, Duration timeout) {
  if (v.job.empty()) return false;
  const auto owner = StoreClient::who_serves(place, Deadline::after(timeout));
  return owner && owner->host == StoreHost::Launcher;
}

/// The protocol of the launcher beneath carries the secret, if its ranks are the ranks of RANK and WORLD_SIZE.
std::optional<Launch> launch_through_protocol(const LaunchVariables& v, int world, const Config& config) {
  switch (v.protocol) {
    case LaunchKind::Pmix: return launch_from_pmix(v, world, config);
    case LaunchKind::Pmi1: return launch_from_pmi1(v, world, config);
    default: return std::nullopt;
  }
}

/// The connection of a rank to rank 0's store, before it is made.
struct Way {
  Bootstrap bootstrap;
  std::shared_ptr<SearchHint> hint = std::make_shared<SearchHint>();
  std::shared_ptr<HostedStore> hosted;  ///< of rank 0
  std::shared_ptr<SecretOffer> offer;   ///< of rank 0; ends when all ranks have come
  bool is_over_tcp = false;
  bool is_assumed_on_one_host = false;
};

std::string hosts_are_unknown(const std::string& master_said) {
  return fmt::format(
      "nothing says how many hosts there are, and {} is an address of this one, so ranks were expected here alone: "
      "ranks of several hosts need SINEW_SECRET_FILE",
      master_said);
}

std::string one_host_because(const Way& way, const LaunchVariables& v) {
  if (way.is_assumed_on_one_host) return hosts_are_unknown(v.master_said);
  return fmt::format("{} means that all ranks are on one host; for several hosts give {}",
                     v.spread.empty() ? v.master_said : v.spread,
                     v.spread.empty() ? "rank 0's address" : "each rank the number of ranks on its own host");
}

/// MASTER_ADDR leads to this host, and rank 0 is not found here.
std::string other_host_cure(const LaunchVariables& v, const std::string& address) {
  const bool is_name = v.master_host != address;
  return fmt::format(
      "{} is {}an address of this host; if rank 0 is on another host, set MASTER_ADDR to an address of "
      "that host on all ranks{}",
      v.master_said, is_name ? address + " here, " : "", is_name ? ", or correct /etc/hosts" : "");
}

/// The address that a text is; nullopt where it is a name.
std::optional<SocketAddress> address_in(const std::string& text) {
  try {
    return SocketAddress::parse(fmt::format("[{}]:1", text));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A likely reason why the other ranks do not find rank 0, which this process is. A name is not looked up for this,
/// because that may take long. `master`: empty where MASTER_ADDR was not looked up.
std::string elsewhere_hint(const LaunchVariables& v, const MasterHost& master) {
  bool is_here = master.is_here;
  if (master.addresses.empty()) {
    const auto address = address_in(v.master_host);
    is_here = !address || address->is_own();
  }
  if (is_here) return "";
  return fmt::format(
      "{} is no address of this host, on which rank 0 runs, so the other ranks look for rank 0 at "
      "another place; set MASTER_ADDR to an address of this host on all ranks",
      v.master_said);
}

void stay_on_host(Way& way, const SocketAddress& place, const LaunchVariables& v, const Config& config) {
  Bootstrap& b = way.bootstrap;
  const std::string because = one_host_because(way, v);
  *way.hint = {.where = fmt::format("{} of this host", place.text()), .cure = because};
  if (v.rank == 0) {
    way.hosted = std::make_shared<HostedStore>(v.ranks, b.secret.empty() ? random_secret() : b.secret, config, because);
    way.hosted->listen(take_place(place, v));
  }
  b.addresses = {place};
}

/// `munge`: null where the ranks have a secret.
void go_over_tcp(Way& way, const MasterHost& master, const std::string& name, const LaunchVariables& v,
                 const std::shared_ptr<const Munge>& munge, const Config& config) {
  Bootstrap& b = way.bootstrap;
  const SocketAddress place = user_socket(name);
  b.store = store_number(name);
  if (master.is_here) {
    way.hint->cure = other_host_cure(v, master.addresses.front().host_text());
  }
  if (v.rank == 0) {
    Served served = serve_hosts(place, name, v, b.secret, munge, elsewhere_hint(v, master), config);
    way.hosted = std::move(served.store);
    way.offer = std::move(served.offer);
    b.addresses = {place};
    return;
  }
  if (master.is_here) b.addresses = {place};
  if (master.is_here && munge) return;  // the server at the UNIX socket says the secret
  way.is_over_tcp = true;
  if (munge) b.secret = munged_secret(master, *munge, name, config, b.notice);
  b.addresses.insert(b.addresses.end(), master.addresses.begin(), master.addresses.end());
}

/// Throws the error again, and adds the variables that say where this rank has looked for rank 0. `over_tcp`: it has
/// looked at TCP ports.
[[noreturn]] void explain(const Error& e, const LaunchVariables& v, bool over_tcp) {
  const auto [first, last] = master_ports(v);
  const bool by_variables = v.master_said.starts_with("MASTER_ADDR=") && v.master_port != 0;
  if (e.code() == Code::Mismatch && over_tcp) {
    throw Error(
        e.code(),
        fmt::format("{}; rank 0 may be at the ports {} to {} of {}. If another job listens there, choose another "
                    "MASTER_PORT",
                    e.what(), first, last, v.master_said),
        e.rank());
  }
  if (e.code() != Code::Timeout || e.rank() != 0 || !(over_tcp || by_variables)) throw e;
  const std::string port = over_tcp ? "" : fmt::format(", MASTER_PORT={}", v.master_port);
  throw Error(e.code(), fmt::format("{}{}: {}", v.master_said, port, e.what()), e.rank());
}

/// Says in a Timeout what was assumed about the hosts.
Exchange doubting(Exchange exchange, const std::string& master_said) {
  exchange.all_gather = [gather = std::move(exchange.all_gather), master_said](const Bytes& mine) {
    try {
      return gather(mine);
    } catch (const Error& e) {
      if (e.code() != Code::Timeout) throw;
      throw Error(e.code(), fmt::format("{}; {}", e.what(), hosts_are_unknown(master_said)), e.rank());
    }
  };
  return exchange;
}

/// Ends the offer when all ranks have come.
Exchange ending(std::shared_ptr<SecretOffer> offer, Exchange exchange) {
  exchange.all_gather = [gather = std::move(exchange.all_gather), offer = std::move(offer)](const Bytes& mine) {
    auto all = gather(mine);
    offer->end();
    return all;
  };
  return exchange;
}

/// MUNGE, or null and why it cannot be used.
std::pair<std::shared_ptr<const Munge>, std::string> munge_or_reason() {
  try {
    return {std::make_shared<const Munge>(), ""};
  } catch (const Error& e) {
    if (e.code() != Code::Unavailable) throw;
    return {nullptr, e.what()};
  }
}

/// Fills `way`, or returns what the launcher's protocol has made.
std::optional<Launch> find_way(Way& way, const std::string& name, const LaunchVariables& v, int world,
                               const Config& config) {
  const SocketAddress place = world > 0 ? user_socket(fmt::format("{}.{}", name, world)) : user_socket(name);
  if (!config.secret_file.empty()) way.bootstrap.secret = secret_from_file(config.secret_file);
  const bool has_secret = !way.bootstrap.secret.empty();
  if (is_on_one_host(v, has_secret)) {
    stay_on_host(way, place, v, config);
    return std::nullopt;
  }
  if (!has_secret) {
    if (auto launch = launch_through_protocol(v, world, config)) return launch;
  }
  const auto [first, last] = master_ports(v);
  *way.hint = {
      .where = fmt::format("the ports {} to {} of {}", first, last, v.master_said),
      .cure =
          "is rank 0 running there, does a firewall let this host connect to these ports, and does no other job have "
          "this MASTER_PORT?"};
  // Rank 0 with a secret listens everywhere, and needs no name of its own host.
  const MasterHost master =
      v.rank == 0 && has_secret ? MasterHost{} : find_master(v, Deadline::after(config.timeout), *way.bootstrap.notice);
  if (has_secret) {
    go_over_tcp(way, master, name, v, nullptr, config);
    return std::nullopt;
  }
  const auto [munge, why_no_munge] = munge_or_reason();
  way.is_assumed_on_one_host = !munge && v.spread.empty() && master.is_here;
  if (way.is_assumed_on_one_host) {
    stay_on_host(way, place, v, config);
  } else if (munge) {
    go_over_tcp(way, master, name, v, munge, config);
  } else {
    ask_for_secret_file(v, why_no_munge);
  }
  return std::nullopt;
}

}  // namespace

SocketAddress bootstrap_address(std::uint16_t master_port, const std::string& job) {
  return user_socket(bootstrap_name(master_port, job));
}

Launch launch_from_master(const LaunchVariables& v, int world, const Config& config) {
  const std::string name = bootstrap_name(v.master_port, v.job);
  Way way{.bootstrap = {v.rank, v.ranks, {}, {}, fmt::format("world {}", world)}};
  way.bootstrap.notice = search_notice(v.rank, way.hint, config);
  Joined joined;
  try {
    if (launcher_serves(user_socket(name), v, config.timeout)) {
      way.bootstrap.addresses = {user_socket(name)};
    } else if (auto launch = find_way(way, name, v, world, config)) {
      return std::move(*launch);
    }
    joined = join(way.bootstrap, std::move(way.hosted), config);
  } catch (const Error& e) {
    explain(e, v, way.is_over_tcp);
  }
  if (way.is_assumed_on_one_host) joined.exchange = doubting(std::move(joined.exchange), v.master_said);
  if (way.offer) joined.exchange = ending(std::move(way.offer), std::move(joined.exchange));
  return {v.kind, std::move(joined.exchange), joined.store->secret(), name, v.local_rank, v.local_ranks, joined.store};
}

}  // namespace sinew
