#pragma once

#include <string>
#include <vector>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/config.hpp>

namespace sinew::doctor {

/// Why a rank could not make a World, or why, in the one that they made, a call that SINEW_TUNE names is refused on all
/// of them; in that World's words.
struct TrialFault {
  int rank = 0;  ///< kAllRanks: they made one
  std::string why;
};
inline constexpr int kAllRanks = -1;

/// What ranks of a job that is examined find when they make a World as the job would, with its variables, pass a
/// barrier, and plan what its rules are for; empty: they could. All ranks call it together and get the same, however
/// far each came.
/// Cost: a World, and config.timeout where ranks wait for one that gave up.
std::vector<TrialFault> try_world(const Launch& launch, const Config& config);

}  // namespace sinew::doctor
