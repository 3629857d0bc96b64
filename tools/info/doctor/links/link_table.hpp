#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "link_probe.hpp"

namespace sinew::doctor {

/// What was found between the hosts of a job: ways by the hosts that they lead from and to.
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

  /// Was there any way to try between the two?
  bool has(int a, int b) const { return ways_.contains({a, b}) || ways_.contains({b, a}); }
  /// Was there any way to try between it and anybody?
  bool touches(int host) const;
  /// The other direction of the same link; nullptr: it was not looked at.
  const LinkResult* back_of(const LinkResult& way) const;
  /// Does some network carry both ways between the two hosts?
  bool joins(int a, int b) const;

 private:
  std::span<const std::string> hosts_;
  std::span<const LinkResult> results_;
  std::map<std::pair<int, int>, std::vector<const LinkResult*>> ways_;
};

/// Ways within one network, as far as addresses tell; without those that a router joins.
std::vector<std::vector<const LinkResult*>> by_network(std::span<const LinkResult> results);

}  // namespace sinew::doctor
