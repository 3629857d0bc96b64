#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The difference of a rank's clock to rank 0's clock.
struct ClockDifference {
  std::int64_t ahead_ns = 0;
  std::int64_t error_ns = 0;        ///< below 0: the difference is unknown, and ahead_ns is 0
  std::int64_t worst_error_ns = 0;  ///< the largest error of all ranks; below 0: one is unknown
};

/// The difference of one rank. `readings` are the clocks that the ranks have read in the same rounds.
SINEW_API ClockDifference difference_of(std::span<const std::vector<ClockReading>> readings, int rank);

/// Measures the difference while a World is made. The difference is measured once, so its error grows as the hosts'
/// clocks drift apart. With NTP that is a few microseconds in a second at most.
/// Cost: collective, with nine rounds. There are none if all ranks have one clock, or time no calls.
SINEW_API ClockDifference compare_clocks(const Exchange& exchange, std::span<const ControlPeer> peers);

}  // namespace sinew
