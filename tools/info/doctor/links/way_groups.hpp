#pragma once

#include <functional>
#include <string>
#include <vector>

#include "link_table.hpp"

namespace sinew::doctor {

/// Ways between hosts that have a network, a host or an interface in common: what is to blame if all have a fault.
struct WayGroup {
  enum class Which : std::uint8_t { Both, Out, In };

  std::string name;  ///< "n2", "n2 eth0 (10.0.0.3)", "the network of eth0 (10.0.0.1)"
  int host = -1;     ///< whose it is; -1: a network
  Which which = Which::Both;
  std::vector<const LinkResult*> ways;

  /// "4 ways to and from other hosts".
  std::string text() const;
  /// Names of the hosts to blame: one, or of a network all that are in it.
  std::vector<std::string> blamed(const LinkTable& table) const;
};

/// The groups of which all ways have the fault, with hosts enough to tell whose it is: three. Of groups that say the
/// same only the widest: a network, else a host, an interface, one direction of it. A way may be in several, or in
/// none.
std::vector<WayGroup> groups_with_fault(const LinkTable& table, const std::function<bool(const LinkResult&)>& fault);

}  // namespace sinew::doctor
