#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/host_parts.hpp>

/// The cost model of shared memory. It consists of the levels of a group and the trees over them. It also has the costs
/// of lines and bytes between ranks, and formulas for the costs of calls. The prediction and the simulator share it.
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
  /// The levels, the innermost one first.
  std::span<const Level> all() const noexcept { return levels_; }
  /// The innermost part that both ranks are in. Unbound ranks share the host only.
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
