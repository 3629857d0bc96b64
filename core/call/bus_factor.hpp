#pragma once

#include <sinew/core/call/collective.hpp>

namespace sinew {

/// What each rank's links must carry at least per byte of a call, as nccl-tests counts it: the bandwidth of a call
/// times this is comparable over numbers of ranks.
constexpr double bus_factor(Collective collective, int ranks) noexcept {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::AllReduce: return 2 * others;
    case Collective::AllGather:
    case Collective::AllGatherV:
    case Collective::ReduceScatter:
    case Collective::ReduceScatterV:
    case Collective::AllToAll:
    case Collective::AllToAllV:
    case Collective::Gather:
    case Collective::GatherV:
    case Collective::Scatter:
    case Collective::ScatterV: return others;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Barrier:
    case Collective::Send:
    case Collective::Recv:
    case Collective::SendRecv: return 1;
  }
  return 1;
}

}  // namespace sinew
