#pragma once

#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "link_table.hpp"

namespace sinew::doctor {

/// The ways that do not carry. What is broken at a host, an interface or a network as a whole is said once, naming it;
/// the rest way by way. Fails where no other network joins two hosts both ways, else a warning.
std::vector<Finding> broken_links(const LinkTable& table);

/// Hosts that have no way to each other that could be tried, which fails; of a host that has none to anybody, once.
std::vector<Finding> unjoined_hosts(const LinkTable& table);

}  // namespace sinew::doctor
