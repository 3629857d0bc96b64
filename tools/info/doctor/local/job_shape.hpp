#pragma once

#include <cstdint>
#include <optional>

namespace sinew::doctor {

/// The memory of a rank if nobody says how much it takes: its code, buffers of libraries and transports, small buffers
/// of its own.
inline constexpr std::uint64_t kRankBytes = std::uint64_t{64} << 20;

/// A job as one of its hosts sees it.
struct JobShape {
  int ranks = 1;
  int ranks_here = 1;
  int hosts = 1;
  int networks = 1;                         ///< of this host that tcp would use
  int cores = 1;                            ///< of this host, in the affinity masks of its ranks together
  std::optional<std::uint64_t> rank_bytes;  ///< that each rank will take; nullopt: nobody has said
};

}  // namespace sinew::doctor
