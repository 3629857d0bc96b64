#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/master.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>

namespace sinew {
namespace {

/// What the variables say about where the ranks are.
struct Whereabouts {
  bool one_host = true;        ///< all ranks, for certain or for lack of a secret
  bool master_is_here = true;  ///< MASTER_ADDR is an address of this machine
  std::vector<SocketAddress> master;
};

/// Errors: Error{Unavailable} with the variable that names the host.
std::vector<SocketAddress> addresses_of_master(const LaunchVariables& v) {
  try {
    return SocketAddress::resolve(v.master_host, static_cast<std::uint16_t>(v.master_port + (v.port_taken ? 1 : 0)));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", v.master_said, e.what()));
  }
}

Whereabouts locate(const LaunchVariables& v, bool has_secret) {
  Whereabouts w;
  if (v.local_ranks == v.ranks || v.hosts == 1) return w;
  w.master = addresses_of_master(v);
  w.master_is_here = std::ranges::any_of(w.master, &SocketAddress::is_own);
  const bool loopback_said =
      v.master_host == "localhost" || v.master_host.starts_with("127.") || v.master_host == "::1";
  if (v.spread.empty() && loopback_said) return w;
  w.one_host = !has_secret && v.spread.empty() && w.master_is_here;
  if (w.one_host || has_secret) return w;
  throw Error(
      Code::Unavailable,
      fmt::format("ranks are on several hosts ({}), so they need a shared secret: {}set SINEW_SECRET_FILE to a file "
                  "with the same random bytes on every host, or start them with sinew-run --hosts",
                  v.spread.empty() ? v.master_said + " is no address of this machine" : v.spread,
                  v.cure.empty() ? "" : v.cure + ", "));
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

/// Rank 0's store for several hosts: it stays until the process ends, because ranks may come to the next world while
/// the last one is still being taken down, and the port is one for all worlds.
std::shared_ptr<HostedStore> hosted_at(const SocketAddress& place, const LaunchVariables& v, std::uint16_t port,
                                       const Bytes& secret, const Config& config) {
  const ProcessLock lock(OfProcess::HostedStores);
  static std::map<std::uint16_t, std::shared_ptr<HostedStore>> by_port;
  std::shared_ptr<HostedStore>& hosted = by_port[port];
  if (hosted) return hosted;
  auto fresh = std::make_shared<HostedStore>(v.ranks, secret, config);
  fresh->serve(0, port);
  fresh->listen(take_place(place, v));
  hosted = fresh;
  return hosted;
}

/// Does sinew-run serve the store of this job? It may be busy with starting ranks, or stopped, and answer late: a rank
/// that took this for "no" would wait at another place.
bool launcher_serves(const SocketAddress& place, const LaunchVariables& v, Duration timeout) {
  if (v.job.empty()) return false;
  const auto owner = StoreClient::who_serves(place, Deadline::after(timeout));
  return owner && owner->host == StoreHost::Launcher;
}

/// As join. A Timeout because nobody answered where rank 0 should be says which variables name that place.
Joined join_master(const LaunchVariables& v, const Bootstrap& bootstrap, std::shared_ptr<HostedStore> hosted,
                   const Config& config) {
  try {
    return join(bootstrap, std::move(hosted), config);
  } catch (const Error& e) {
    const bool over_tcp = !bootstrap.addresses.back().is_unix();
    const bool by_variables = v.master_said.starts_with("MASTER_ADDR=") && v.master_port != 0;
    if (e.code() != Code::Timeout || e.rank() != 0 || !(over_tcp || by_variables)) throw;
    const std::string port = over_tcp ? "" : fmt::format(", MASTER_PORT={}", v.master_port);
    throw Error(e.code(), fmt::format("{}{}: {}", v.master_said, port, e.what()), e.rank());
  }
}

}  // namespace

SocketAddress bootstrap_address(std::uint16_t master_port, const std::string& job) {
  return user_socket(bootstrap_name(master_port, job));
}

Launch launch_from_master(const LaunchVariables& v, const Config& config) {
  const int world = next_world();
  Bootstrap bootstrap{v.rank, v.ranks, {}, {}, fmt::format("world {}", world)};
  std::shared_ptr<HostedStore> hosted;
  const std::string name = bootstrap_name(v.master_port, v.job);
  if (const SocketAddress place = user_socket(name); launcher_serves(place, v, config.timeout)) {
    bootstrap.addresses = {place};
  } else {
    if (!config.secret_file.empty()) bootstrap.secret = secret_from_file(config.secret_file);
    const Whereabouts where = locate(v, !bootstrap.secret.empty());
    const SocketAddress of_world = where.one_host && world > 0 ? user_socket(fmt::format("{}.{}", name, world)) : place;
    if (v.rank == 0 && where.one_host) {
      hosted =
          std::make_shared<HostedStore>(v.ranks, bootstrap.secret.empty() ? random_secret() : bootstrap.secret, config);
      hosted->listen(take_place(of_world, v));
    } else if (v.rank == 0) {
      hosted = hosted_at(of_world, v, where.master.front().port(), bootstrap.secret, config);
    }
    if (where.one_host || where.master_is_here) bootstrap.addresses.push_back(of_world);
    if (!where.one_host && v.rank != 0) {
      bootstrap.addresses.insert(bootstrap.addresses.end(), where.master.begin(), where.master.end());
    }
    if (v.rank == 0) bootstrap.addresses = {of_world};
  }
  Joined joined = join_master(v, bootstrap, std::move(hosted), config);
  return {v.kind, std::move(joined.exchange), joined.store->secret(), name, v.local_rank, v.local_ranks, joined.store};
}

}  // namespace sinew
