#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "link_probe.hpp"

namespace sinew::doctor {

/// The results of all links of a job, by the hosts where they begin and end.
/// Lifetime: the names and results outlive it.
class LinkTable {
 public:
  /// `hosts`: their names; `results`: both directions of every link.
  LinkTable(std::span<const std::string> hosts, std::span<const LinkResult> results);

  std::span<const std::string> hosts() const noexcept { return hosts_; }
  std::span<const LinkResult> results() const noexcept { return results_; }
  const std::string& name(int host) const { return hosts_[static_cast<std::size_t>(host)]; }
  /// "node1 eth0 (10.0.0.1) -> node2 eth0 (10.0.0.2)"
  std::string text(const LinkResult& way) const;

  /// Whether there was a link to try between the two hosts.
  bool has(int a, int b) const { return ways_.contains({a, b}) || ways_.contains({b, a}); }
  /// Whether there was a link to try between this host and any other.
  bool touches(int host) const;
  /// The other direction of the same link; nullptr: that direction was not tried.
  const LinkResult* back_of(const LinkResult& way) const;
  /// Whether some network carries both ways between the two hosts.
  bool joins(int a, int b) const;

 private:
  std::span<const std::string> hosts_;
  std::span<const LinkResult> results_;
  std::map<std::pair<int, int>, std::vector<const LinkResult*>> ways_;
};

/// Groups of links within one network, as far as addresses tell. Links that a router joins are left out.
std::vector<std::vector<const LinkResult*>> by_network(std::span<const LinkResult> results);

}  // namespace sinew::doctor
