#pragma once

#include <cstdint>
#include <vector>

namespace sinew {

/// The kinds of parts of a host that cores share, from the inside out.
enum class HostPart : std::uint8_t {
  Cache,     ///< the last level of caches: a cluster of cores, or all cores of a socket
  NumaNode,  ///< the memory that is equally near to its cores
  Package,   ///< a socket
};
inline constexpr int kHostParts = 3;

/// The parts of one kind that the ranks of a group are in.
struct PartsOfRanks {
  HostPart kind = HostPart::Cache;
  std::vector<int> numbers;  ///< by rank: the number of its part; -1: the rank is bound to none
  friend bool operator==(const PartsOfRanks&, const PartsOfRanks&) = default;
};

}  // namespace sinew
