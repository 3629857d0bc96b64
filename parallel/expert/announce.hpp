#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// Exchanges numbers between all pairs of ranks, and tells all ranks if one of them cannot route.
/// to: the numbers for each rank. from: how many numbers each rank sends to this one. Returns the received numbers, by
/// rank.
/// Errors: InvalidArgument on all ranks alike if a rank has a fault, with `name`, the first such rank, token and
///         expert.
/// Cost:   an all_to_all_v of the numbers, and of two more for each pair.
std::vector<std::vector<std::int64_t>> announce(CallGroup group, const std::string& name,
                                                const std::vector<std::vector<std::int64_t>>& to,
                                                std::span<const std::size_t> from,
                                                const std::optional<RouterFault>& fault);

}  // namespace sinew::parallel
