#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// How a rank's clock lies to rank 0's.
struct ClockDifference {
  std::int64_t ahead_ns = 0;
  std::int64_t error_ns = 0;        ///< below 0: not known, and ahead_ns is 0
  std::int64_t worst_error_ns = 0;  ///< of all ranks; below 0: one is not known
};

/// Of rank `rank`, of what all have read in the same rounds.
SINEW_API ClockDifference difference_of(std::span<const std::vector<ClockReading>> readings, int rank);

/// Collective while a World is made. Ranks of one clock, or that time no calls, exchange nothing; otherwise nine
/// rounds: the offset is measured once, so its error grows by what the hosts' clocks then drift apart (with NTP less
/// than microseconds a second).
SINEW_API ClockDifference compare_clocks(const Exchange& exchange, std::span<const ControlPeer> peers);

}  // namespace sinew
