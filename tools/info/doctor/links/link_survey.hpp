#pragma once

#include <functional>
#include <span>
#include <vector>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/tools/info/doctor/records/host_record.hpp>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Called before each round of probes, with the number of the round and the number of rounds.
using ShowRound = std::function<void(int round, int rounds)>;

/// Tries every link between the hosts of a job from both ends, or those of its only host from itself. All ranks call it
/// together and get the same result. A host tries or answers one other host at a time, so that no two probes share an
/// interface. A link that looks slow is tried again alone. `host`: this rank's; -1: it only waits.
/// Cost: half a second for each other host; more where links do not work.
std::vector<LinkResult> survey_links(const Launch& job, int host, std::span<const HostRecord> records,
                                     const ShowRound& show);

}  // namespace sinew::doctor
