#pragma once

#include <optional>

#include <sinew/core/deadline.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/transports/shm/memory/group_states.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/transport.hpp>

namespace sinew::shm {

/// Times collectives and messages between the two ranks of `pair` and says what suits this host. Messages are timed if
/// the two ranks have an endpoint to each other, and go by what was found from then on. Collective: both ranks make the
/// same calls whatever they find, and return the same. A measurement that other programs have disturbed is discarded
/// and repeated, because wrong facts would slow down every later job. Returns nullopt if `budget` ends first.
/// Errors: as ShmOffload's constructor; Timeout naming the other rank where it does not answer for as long as
/// `patience`.
std::optional<Facts> measure(HostPeers& host, GroupStates& group_states, ShmTransport& messages,
                             const OffloadContext& pair, Duration budget, Duration patience);

}  // namespace sinew::shm
