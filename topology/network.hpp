#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/base/inline_vector.hpp>

namespace sinew {

/// The kinds of links that a message may pass. Each direction is a link of its own, except for a host's memory:
/// messages within the host pass it once. The links between a leaf switch and the spine count as one link for each
/// direction.
enum class Tier : std::uint8_t { RankOut, RankIn, Memory, PciOut, PciIn, NicOut, NicIn, LeafUp, LeafDown };
inline constexpr std::size_t kTiers = 9;

/// The name of a tier, such as "rank out" or "leaf up".
SINEW_API std::string_view name_of(Tier tier) noexcept;

/// The form of the network between hosts.
/// - OneSwitch: one switch, which never limits.
/// - FatTree: each leaf switch has some hosts, with all their NICs.
/// - RailOptimised: leaf i has NIC i of every host.
enum class NetworkForm : std::uint8_t { OneSwitch, FatTree, RailOptimised };

/// The name of a form: "one_switch", "fat_tree" or "rail_optimised".
SINEW_API std::string_view name_of(NetworkForm form) noexcept;

struct LinkRate {
  double bytes_per_s = 0;  ///< 0: the link never limits
  double latency_s = 0;
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

/// A link, by its index among the links of its tier. Rank and Pci tiers have a link for each rank. Memory has one for
/// each host. Nic tiers have one for each NIC, host by host. Leaf tiers have one for each leaf switch.
struct NetworkLink {
  Tier tier = Tier::RankOut;
  int index = 0;
  friend bool operator==(const NetworkLink&, const NetworkLink&) = default;
};

using Route = InlineVector<NetworkLink, 6>;

/// The network between the ranks of many equal hosts. Each rank has an accelerator, or a socket if there are none.
/// Ranks are numbered host by host. The links and routes are computed, so the object is small for any number of hosts.
struct SINEW_API Network {
  std::string name;
  NetworkForm form = NetworkForm::OneSwitch;
  int hosts = 1;
  int ranks_per_host = 1;
  int nics_per_host = 1;        ///< if there are fewer NICs than ranks, neighbouring ranks share one
  int hosts_per_leaf = 1;       ///< for FatTree
  double oversubscription = 1;  ///< rate of all NICs below a leaf, divided by the rate of its links to the spine
  std::array<LinkRate, kTiers> rates{};  ///< of one link; for LeafUp and LeafDown, of all links of a leaf together
  double reduce_bytes_per_s = 0;         ///< rate of `dst = a + b` on a rank, in bytes of dst; 0: takes no time
  double copy_bytes_per_s = 0;           ///< rate of copies on a rank; 0: takes no time
  std::vector<int> ranks_on{};           ///< the ranks of each host, ranks_per_host at most; empty: all ranks_per_host
  std::vector<int> nic_by_place{};       ///< the NIC of each rank of a host; empty: neighbouring ranks share one

  int ranks() const noexcept;
  int host_of(int rank) const noexcept { return ranks_on.empty() ? rank / ranks_per_host : location_of(rank).host; }
  int place_of(int rank) const noexcept { return ranks_on.empty() ? rank % ranks_per_host : location_of(rank).place; }
  /// The NIC of the rank with this number on its host.
  int nic_of_place(int place) const noexcept;
  /// True if each rank has a NIC of its own, the one with the rank's number on its host.
  bool nic_for_each_rank() const noexcept { return nics_per_host == ranks_per_host && nic_by_place.empty(); }
  /// The leaf switch of a host's NIC; 0 for OneSwitch.
  int leaf_of(int host, int nic) const noexcept;
  /// The number of links of a tier.
  int count(Tier tier) const noexcept;
  const LinkRate& rate(Tier tier) const noexcept { return rates[static_cast<std::size_t>(tier)]; }

  /// The links that a message between two different ranks passes, in order. Spine switches never limit. Messages spread
  /// evenly over the links between a leaf and the spine.
  Route route(int from, int to) const noexcept;
  /// The name of a link, such as "nic out 3 of host 12".
  std::string describe(const NetworkLink& link) const;

  friend bool operator==(const Network&, const Network&) = default;

 private:
  struct Location {
    int host = 0;
    int place = 0;
  };
  Location location_of(int rank) const noexcept;
};

}  // namespace sinew
