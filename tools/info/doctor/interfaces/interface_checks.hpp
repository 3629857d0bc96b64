#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "interfaces.hpp"

namespace sinew::doctor {

/// Finds interfaces that are down in a network that other hosts are in, MTUs that differ from most in their network,
/// and hosts that lack a network that most hosts share.
/// `hosts`: the addresses of each host; `names`: the names of the hosts.
std::vector<Finding> check_interfaces(std::span<const std::vector<HostAddress>> hosts,
                                      std::span<const std::string> names);

}  // namespace sinew::doctor
