#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <sinew/core/base/exchange.hpp>

namespace sinew {

struct WorldState;

/// A function by which the ranks of a new communicator agree. It replaces each word by the AND of all ranks' words.
using AndOfAll = std::function<void(std::span<std::uint64_t> words)>;

/// The AND over all ranks of an exchange, in one round. Lifetime: that of `members`.
AndOfAll and_over(const Exchange& members);

/// Finds a communicator id that is free on all ranks of `and_of_all`, and takes it on all of them: later ballots do not
/// choose it. Two ballots of overlapping ranks may run at the same time: the ranks confirm the id, and choose another
/// one if a rank has given the id to the other ballot meanwhile.
/// `seed`: equal on all ranks; other ballots should have another one. It says which id is looked at first.
/// Thread: takes the World's lock, and does not hold it while the ranks agree.
/// Errors: Unavailable where no id is free on all ranks; what `and_of_all` throws.
std::uint16_t choose_communicator_id(WorldState& world, std::uint64_t seed, const AndOfAll& and_of_all);

}  // namespace sinew
