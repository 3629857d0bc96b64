#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// Numbers for each rank, and whether this one can route at all.
/// to: by rank; from: how many each rank sends this one. Returns what came, by rank.
/// Errors: InvalidArgument on all ranks alike where one has a fault: `name`, the first such rank, token and expert.
/// Cost:   an all_to_all_v of the numbers and two more for each pair.
std::vector<std::vector<std::int64_t>> announce(CallGroup group, const std::string& name,
                                                const std::vector<std::vector<std::int64_t>>& to,
                                                std::span<const std::size_t> from,
                                                const std::optional<RouterFault>& fault);

}  // namespace sinew::parallel
