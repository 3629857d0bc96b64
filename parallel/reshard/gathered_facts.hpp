#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel {

/// The parts of all ranks, by rank. Collective.
std::vector<std::vector<PartDescription>> gather_parts(CallGroup all, std::span<const CheckpointPart> mine,
                                                       const char* label);

/// By rank, the number of its host. Ranks with equal host names share a host. Collective.
std::vector<int> gather_hosts(CallGroup all, const char* label);

}  // namespace sinew::parallel
