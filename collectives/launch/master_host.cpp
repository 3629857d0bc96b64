#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <sinew/collectives/launch/master_host.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Other programs may listen at MASTER_PORT: torch's own store, or another job. Rank 0 listens at the first free one of
/// so many ports, and the other ranks look at all of them.
constexpr int kMasterPorts = 4;
constexpr int kLastMasterPort = 65535;

constexpr auto kFirstPause = std::chrono::milliseconds(50);  // between two times that a name is looked up
constexpr auto kLongestPause = std::chrono::milliseconds(500);

std::vector<SocketAddress> look_up_master(const LaunchVariables& v, Deadline deadline, SearchNotice& notice) {
  const auto port = static_cast<std::uint16_t>(master_ports(v).first);
  const auto start = Clock::now();
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    try {
      return SocketAddress::resolve(v.master_host, port);
    } catch (const Error& e) {
      if (deadline.passed()) {
        throw Error(e.code(), fmt::format("{}: {}, tried for {:.0f} s", v.master_said, e.what(),
                                          std::chrono::duration<double>(Clock::now() - start).count()));
      }
      notice.tell_if_due([&] { return std::string(e.what()); });
    }
    std::this_thread::sleep_until(std::min(Clock::now() + pause, deadline.at()));
  }
}

}  // namespace

std::pair<int, int> master_ports(const LaunchVariables& v) {
  const int first = v.master_port + (v.port_taken ? 1 : 0);
  return {first, std::min(first + kMasterPorts - 1, kLastMasterPort)};
}

MasterHost find_master(const LaunchVariables& v, Deadline deadline, SearchNotice& notice) {
  MasterHost master;
  const std::vector<SocketAddress> hosts = look_up_master(v, deadline, notice);
  const auto [first, last] = master_ports(v);
  for (int port = first; port <= last; ++port) {
    for (const SocketAddress& host : hosts)
      master.addresses.push_back(host.with_port(static_cast<std::uint16_t>(port)));
  }
  master.is_here = std::ranges::any_of(hosts, [](const SocketAddress& a) { return a.is_own(); });
  return master;
}

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "ip6-localhost" || host == "localhost.localdomain" ||
         host.ends_with(".localhost") || host.starts_with("127.") || host == "::1";
}

}  // namespace sinew
