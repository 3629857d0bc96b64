#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "interfaces.hpp"

namespace sinew::doctor {

/// Interfaces that are down in a network that other hosts are in, MTUs unlike those of most in their network, and hosts
/// that lack a network that most share.
/// `hosts`: their addresses; `names`: and how they are called.
std::vector<Finding> check_interfaces(std::span<const std::vector<HostAddress>> hosts,
                                      std::span<const std::string> names);

}  // namespace sinew::doctor
