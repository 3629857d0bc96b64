#pragma once

#include <optional>

#include <sinew/core/deadline.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/transports/shm/memory/group_states.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/transport.hpp>

namespace sinew::shm {

/// Times collectives and messages between the two ranks of `pair`, and returns the facts that suit this host. Messages
/// are timed if the two ranks have an endpoint to each other. From then on messages follow the facts. Collective: both
/// ranks make the same calls, and return the same facts. A measurement that other programs have disturbed is repeated.
/// If `budget` ends before that, the facts have `disturbed`. Returns nullopt if no measurement is complete by then.
/// Errors: as ShmOffload's constructor; Timeout naming the other rank where it does not answer for as long as
/// `patience`.
std::optional<Facts> measure(HostPeers& host, GroupStates& group_states, ShmTransport& messages,
                             const OffloadContext& pair, Duration budget, Duration patience);

}  // namespace sinew::shm
