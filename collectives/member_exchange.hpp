#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/exchange.hpp>

namespace sinew {

struct CommunicatorState;

/// An exchange among some ranks of a World that no other rank takes part in, by messages. The members send to the first
/// of them, which sends what all have given to each.
/// `bootstrap`: of all ranks of the World. `members`: its ranks, each once, this one too. `what`: names the group; with
/// the members it tells this exchange from others that run at the same time.
/// Errors: its rounds throw Timeout naming a member that does not come in time, and Mismatch where a member's group of
///         the same hash has another name or other members.
Exchange member_exchange(CommunicatorState& bootstrap, std::vector<int> members, std::string_view what,
                         Deadline deadline);

/// Equal where the name and the members are.
std::uint64_t hash_of_group(std::span<const int> members, std::string_view what) noexcept;

}  // namespace sinew
