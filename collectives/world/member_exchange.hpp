#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

struct CommunicatorState;

/// An exchange among some ranks of a World, by messages. No other rank takes part. In each round the members send their
/// bytes to the first member, which sends the bytes of all members to each of them.
/// `bootstrap`: of all ranks of the World. `members`: its ranks, each once, this one too. `what`: names the group; with
/// the members it tells this exchange from others that run at the same time.
/// Errors: its rounds throw Timeout naming a member that does not come in time, and Mismatch where a member's group of
///         the same hash has another name or other members.
Exchange member_exchange(CommunicatorState& bootstrap, std::vector<int> members, std::string_view what,
                         Deadline deadline);

/// The hash of a group's name and members.
std::uint64_t hash_of_group(std::span<const int> members, std::string_view what) noexcept;

}  // namespace sinew
