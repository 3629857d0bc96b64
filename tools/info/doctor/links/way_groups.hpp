#pragma once

#include <functional>
#include <string>
#include <vector>

#include "link_table.hpp"

namespace sinew::doctor {

/// Links that have a network, a host or an interface in common. If all of them have a fault, that part is to blame.
struct WayGroup {
  enum class Which : std::uint8_t { Both, Out, In };

  std::string name;  ///< "n2", "n2 eth0 (10.0.0.3)", "the network of eth0 (10.0.0.1)"
  int host = -1;     ///< whose it is; -1: a network
  Which which = Which::Both;
  std::vector<const LinkResult*> ways;

  /// "4 ways to and from other hosts".
  std::string text() const;
  /// The names of the hosts to blame: one host, or all hosts of a network.
  std::vector<std::string> blamed(const LinkTable& table) const;
};

/// The groups in which all links have the fault. At least three hosts are needed to tell whose fault it is. Of groups
/// with the same links only the widest is named: a network, else a host, an interface, one direction of an interface. A
/// link may be in several groups, or in none.
std::vector<WayGroup> groups_with_fault(const LinkTable& table, const std::function<bool(const LinkResult&)>& fault);

}  // namespace sinew::doctor
