#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/config.hpp>
#include <sinew/tools/info/doctor/finding/finding.hpp>
#include <sinew/tools/info/doctor/links/link_probe.hpp>
#include <sinew/tools/info/doctor/links/link_survey.hpp>

namespace sinew::doctor {

struct Diagnosis {
  int ranks = 1;
  std::vector<std::string> hosts;
  std::vector<int> first_ranks;   ///< by host, the lowest that runs there
  std::vector<Finding> findings;  ///< the worst first
  std::vector<LinkResult> links;
};

/// Examines the hosts of a job. All its ranks call it together and get the same result. The lowest rank of each host
/// looks at the host and probes its links.
/// `rank_bytes`: as in JobShape.
/// Errors: Error{Timeout} that names ranks that did not come.
/// Cost:   a few rounds of the exchange, and the cost of survey_links().
Diagnosis examine(const Launch& job, const Config& config, std::optional<std::uint64_t> rank_bytes,
                  const ShowRound& show);

}  // namespace sinew::doctor
