#pragma once

#include <sinew/core/call/collective.hpp>

namespace sinew {

/// The bytes that each rank's links must carry at least for one byte of a call, as nccl-tests counts them. The product
/// of a call's bandwidth and this factor can be compared between different numbers of ranks.
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
