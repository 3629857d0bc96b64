#pragma once

#include <string>
#include <vector>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/config.hpp>

namespace sinew::doctor {

/// A fault in the words of the trial World: why a rank could not make the World, or why a call that SINEW_TUNE names is
/// refused on all ranks of the World.
struct TrialFault {
  int rank = 0;  ///< kAllRanks: all ranks made the World, and a call is refused
  std::string why;
};
inline constexpr int kAllRanks = -1;

/// Makes a World as the job would, with the job's variables. Its ranks pass a barrier and plan the calls of the job's
/// rules. Returns the faults; empty: all this worked. All ranks call it together and get the same result, even if some
/// of them could not make the World.
/// Cost: a World, and config.timeout if ranks wait for one that gave up.
std::vector<TrialFault> try_world(const Launch& launch, const Config& config);

}  // namespace sinew::doctor
