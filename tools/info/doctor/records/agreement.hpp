#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_record.hpp"
#include "rank_record.hpp"

namespace sinew::doctor {

/// Finds different versions of sinew, which no job survives, and different builds of one version. `ranks`: by rank.
std::vector<Finding> check_versions(std::span<const RankRecord> ranks);

/// Finds variables that must, or should, be the same on all ranks.
std::vector<Finding> check_settings(std::span<const RankRecord> ranks);

/// Finds transports that only some hosts have. No job uses them between these hosts and others. `hosts`: their names.
std::vector<Finding> check_modules(std::span<const HostRecord> records, std::span<const std::string> hosts);

}  // namespace sinew::doctor
