#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/host_parts.hpp>

/// What shared memory makes of a host's topology: the levels of a group, the trees over them, what lines and bytes cost
/// between ranks, and what calls cost by that. The prediction and the simulator of calls share this room.
namespace sinew::shm {

/// The innermost part of a host that two ranks share. It decides what a line costs that goes from one to the other.
enum class Shared : std::uint8_t { Cache, NumaNode, Package, Host };
inline constexpr std::size_t kShared = 4;

/// Parts of one kind that divide the ranks of a group.
struct Level {
  HostPart kind = HostPart::Cache;
  int domains = 1;
  std::vector<int> domain_of;  ///< by rank, from 0
};

/// The levels of a group of one host. Each level's domains lie within domains of the next one. Kinds of parts that do
/// not divide the group further are left out: all ranks are in one part, each rank has a part of its own, or the next
/// kind inside divides the ranks in the same way.
class SINEW_API Levels {
 public:
  /// `parts`: as in OffloadContext, with as many numbers as `ranks`. Empty: all ranks share a cache, as nobody knows.
  explicit Levels(int ranks, std::span<const PartsOfRanks> parts = {});

  int ranks() const noexcept { return ranks_; }
  /// From the inside out.
  std::span<const Level> all() const noexcept { return levels_; }
  /// What the ranks share. A rank shares all of its parts with itself, and none that it is not bound to with others.
  Shared between(int a, int b) const noexcept;
  /// The number of the rank's part of this kind, from 0. Parts that divide nothing count, too.
  int domain(HostPart kind, int rank) const noexcept {
    return domain_of_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(rank)];
  }
  /// The number of parts of this kind that have ranks.
  int domains(HostPart kind) const noexcept { return domains_[static_cast<std::size_t>(kind)]; }
  /// Such as "16 caches, 8 NUMA nodes, 2 sockets". Empty: nothing divides the group.
  std::string text() const;

 private:
  int ranks_;
  std::vector<Level> levels_;
  std::array<std::vector<int>, kHostParts> domain_of_;  // by kind and rank
  std::array<std::vector<bool>, kHostParts> is_bound_;  // by kind and rank
  std::array<int, kHostParts> domains_{};
};

}  // namespace sinew::shm
