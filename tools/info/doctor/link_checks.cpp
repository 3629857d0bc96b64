#include "link_checks.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "link_speeds.hpp"

namespace sinew::doctor {
namespace {

/// Results by the hosts that they lead from and to.
class LinkTable {
 public:
  explicit LinkTable(std::span<const LinkResult> results) {
    for (const LinkResult& r : results) ways_[{r.from_host, r.to_host}].push_back(&r);
  }
  bool has(int a, int b) const { return ways_.contains({a, b}); }

  /// The other direction of the same link; nullptr: it was not looked at.
  const LinkResult* back_of(const LinkResult& r) const {
    const auto ways = ways_.find({r.to_host, r.from_host});
    if (ways == ways_.end()) return nullptr;
    const auto back = std::ranges::find_if(ways->second, [&r](const LinkResult* other) {
      return other->link.from.ip() == r.link.to.ip() && other->link.to.ip() == r.link.from.ip();
    });
    return back == ways->second.end() ? nullptr : *back;
  }

  /// Does some network carry both ways between the two hosts?
  bool joins(int a, int b) const {
    const auto ways = ways_.find({a, b});
    return ways != ways_.end() && std::ranges::any_of(ways->second, [this](const LinkResult* r) {
             const LinkResult* back = back_of(*r);
             return r->state == LinkState::Carries && back != nullptr && back->state == LinkState::Carries;
           });
  }

 private:
  std::map<std::pair<int, int>, std::vector<const LinkResult*>> ways_;
};

const std::string& name_in(std::span<const std::string> hosts, int host) {
  return hosts[static_cast<std::size_t>(host)];
}

/// About one direction: "node1 eth0 (10.0.0.1) -> node2 eth0 (10.0.0.2): ...".
Finding about(std::span<const std::string> hosts, const LinkResult& r, Severity severity, const std::string& found,
              std::string cure) {
  const std::string& from = name_in(hosts, r.from_host);
  const std::string& to = name_in(hosts, r.to_host);
  return {severity,
          "link",
          fmt::format("{} {} -> {} {}: {}", from, r.link.from.text(), to, r.link.to.text(), found),
          std::move(cure),
          {from, to}};
}

std::string found_of(const LinkResult& r, const LinkResult* back) {
  std::string text;
  if (r.state == LinkState::SmallOnly) {
    text =
        fmt::format("short messages pass, long ones do not: packets of the MTU ({}) are lost, ", r.link.from.mtu_bytes);
    text += r.passing_bytes > 0 ? fmt::format("those of {} arrive", r.passing_bytes) : "and so are shorter ones";
  } else if (r.error == ETIMEDOUT) {
    text = "no answer";
  } else {
    text = r.error != 0 ? r.why : fmt::format("answers, but is not the job's: {}", r.why);
  }
  if (back != nullptr && back->state == LinkState::Carries) text += "; the way back works";
  return text;
}

std::string cure_of(const LinkResult& r) {
  const std::string look =
      fmt::format("`ip route get {} from {}` shows the way that is taken", r.link.to.ip(), r.link.from.ip());
  if (r.state == LinkState::SmallOnly) {
    if (r.passing_bytes == 0) return "look at the errors of the interfaces and switch ports: ip -s link, ethtool -S";
    return fmt::format("ip link set {} mtu {} on both sides, or an MTU of {} on every switch between them",
                       r.link.from.interface, r.passing_bytes, r.link.from.mtu_bytes);
  }
  if (r.error == ECONNREFUSED)
    return "a firewall refuses it: allow TCP between the hosts, on the ports of SINEW_PORTS if that is set";
  if (r.error == ETIMEDOUT) return fmt::format("a firewall, or a route that leads nowhere, here or there; {}", look);
  if (r.error != 0) return fmt::format("a route leads nowhere; {}", look);
  return fmt::format(
      "another process or machine has the address: give each host its own, or leave {} out with SINEW_INTERFACE",
      r.link.from.interface);
}

/// Pairs of hosts of which no address leads to the other.
std::vector<Finding> unjoined_hosts(std::span<const std::string> hosts, const LinkTable& table) {
  std::vector<Finding> found;
  for (int a = 0; a < static_cast<int>(hosts.size()); ++a) {
    for (int b = a + 1; b < static_cast<int>(hosts.size()); ++b) {
      if (table.has(a, b) || table.has(b, a)) continue;
      found.push_back({Severity::Fails,
                       "link",
                       fmt::format("{} and {} have no interfaces that are up and could reach each other",
                                   name_in(hosts, a), name_in(hosts, b)),
                       "ip link set DEVICE up; SINEW_INTERFACE, if it is set, must name interfaces that both have",
                       {name_in(hosts, a), name_in(hosts, b)}});
    }
  }
  return found;
}

}  // namespace

std::vector<Finding> check_links(std::span<const std::string> hosts, std::span<const LinkResult> results) {
  const LinkTable table(results);
  std::vector<Finding> found = unjoined_hosts(hosts, table);
  for (const LinkResult& r : results) {
    if (r.state == LinkState::Carries) continue;
    const bool joined = table.joins(r.from_host, r.to_host);
    found.push_back(about(hosts, r, joined ? Severity::Warns : Severity::Fails,
                          found_of(r, table.back_of(r)) + (joined ? "; another network joins the two" : ""),
                          cure_of(r)));
  }
  for (const SlowLink& slow : slow_links(results)) {
    const std::string& device = slow.link->link.from.interface;
    found.push_back(
        about(hosts, *slow.link, Severity::Warns, slow.found,
              fmt::format("cable, switch port and negotiated rate (ethtool {}), and what else uses them", device)));
  }
  if (found.empty()) found.push_back({Severity::Fine, "link", speeds_text(results)});
  return found;
}

std::vector<Finding> check_own_links(const std::string& host, std::span<const LinkResult> results) {
  std::vector<Finding> found;
  for (const LinkResult& r : results) {
    if (r.state == LinkState::Carries) continue;
    found.push_back({Severity::Warns,
                     "link",
                     fmt::format("{} from this host itself: {}", r.link.to.text(), found_of(r, nullptr)),
                     cure_of(r),
                     {host}});
  }
  if (found.empty() && !results.empty()) found.push_back({Severity::Fine, "link", speeds_text(results), "", {host}});
  return found;
}

}  // namespace sinew::doctor
