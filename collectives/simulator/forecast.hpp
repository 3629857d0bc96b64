#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// What a schedule costs on a network.
struct Forecast {
  /// All links of a tier. Tiers whose links never limit are not listed.
  struct Load {
    Tier tier = Tier::RankOut;
    int links = 0;
    int used = 0;              ///< those that carry anything
    double bytes = 0;          ///< through all of them
    NetworkLink busiest{};     ///< the first of those with most
    double busiest_bytes = 0;  ///< through that one
    double utilisation = 0;    ///< of that one: 1 is all the time at full rate
  };
  /// One step of one rank, of one segment. Messages start when both ends have posted them.
  struct Span {
    int rank = 0;
    std::uint32_t segment = 0;
    std::uint32_t step = 0;  ///< of the rank's program
    Op op = Op::Copy;
    int peer = -1;
    Seconds start = 0;
    Seconds end = 0;
  };

  Seconds seconds = 0;
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;  ///< algbw times bus_factor() (core/call/bus_factor.hpp)
  std::vector<Load> loads{};     ///< the tier with the highest utilisation first
  int ranks = 0;
  int simulated_ranks = 0;  ///< each stands for ranks / simulated_ranks that behave alike
  bool exact = true;        ///< false: an approximation, as `account` says
  std::uint32_t segments = 0;
  std::uint32_t depth = 0;                               ///< segments under way at a time
  std::uint32_t simulated_segments = 0;                  ///< the rest at the pace of the second half of these
  std::uint64_t scratch_bytes = 0;                       ///< of the rank that holds most
  std::string account{};                                 ///< of all that, in words
  std::vector<Span> time_line{};                         ///< if asked for: of the simulated ranks, as they end
  std::array<std::vector<double>, kTiers> link_bytes{};  ///< if asked for: through each link, of tiers that may limit
};

}  // namespace sinew
