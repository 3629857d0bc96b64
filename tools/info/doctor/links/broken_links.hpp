#pragma once

#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "link_table.hpp"

namespace sinew::doctor {

/// Finds links that carry nothing. A fault of a whole host, interface or network is one finding; the rest is one
/// finding for each link. A finding fails a job where no other network joins the two hosts both ways; else it is a
/// warning.
std::vector<Finding> broken_links(const LinkTable& table);

/// Finds pairs of hosts that have no link to try between them, which fails a job. A host that has no link to any other
/// host is one finding.
std::vector<Finding> unjoined_hosts(const LinkTable& table);

}  // namespace sinew::doctor
