#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/config.hpp>

#include "finding.hpp"
#include "link_probe.hpp"
#include "link_survey.hpp"

namespace sinew::doctor {

/// Memory of a rank that a job says nothing of: its code, its libraries' and transports' buffers, and small ones of its
/// own.
inline constexpr std::uint64_t kRankBytes = std::uint64_t{64} << 20;

struct Diagnosis {
  int ranks = 1;
  std::vector<std::string> hosts;
  std::vector<Finding> findings;  ///< the worst first
  std::vector<LinkResult> links;
};

/// Examines the hosts of a job; all its ranks call it together, and all get the same. The lowest rank of each host
/// looks and probes.
/// Errors: Error{Timeout} naming ranks that did not come.
/// Cost:   a few rounds of the exchange, and what survey_links() costs.
Diagnosis examine(const Launch& job, const Config& config, std::uint64_t rank_bytes, const ShowRound& show);

}  // namespace sinew::doctor
