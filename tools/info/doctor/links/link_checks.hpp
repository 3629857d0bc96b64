#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "link_probe.hpp"

namespace sinew::doctor {

/// The findings from the probes between hosts. Two hosts that no network joins both ways fail a job. A network that
/// does not work beside one that does is a warning; so is a network that is slow against the median of its kind.
/// `hosts`: their names; `results`: both directions of every link.
std::vector<Finding> check_links(std::span<const std::string> hosts, std::span<const LinkResult> results);

/// The same for the probes of one host's addresses by itself.
std::vector<Finding> check_own_links(const std::string& host, std::span<const LinkResult> results);

}  // namespace sinew::doctor
