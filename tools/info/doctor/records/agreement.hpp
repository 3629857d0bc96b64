#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_record.hpp"
#include "rank_record.hpp"

namespace sinew::doctor {

/// Versions of sinew that differ, which no job survives, and builds of one version that do. `ranks`: all, by rank.
std::vector<Finding> check_versions(std::span<const RankRecord> ranks);

/// Variables that all ranks must have alike, or had better.
std::vector<Finding> check_settings(std::span<const RankRecord> ranks);

/// Transports that some hosts have and others do not: no job uses them between the two. `hosts`: their names.
std::vector<Finding> check_modules(std::span<const HostRecord> records, std::span<const std::string> hosts);

}  // namespace sinew::doctor
