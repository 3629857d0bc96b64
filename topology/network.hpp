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

/// The links that a message may pass, by where they are. Each way is a link of its own, but for a host's memory, which
/// all that stays on the host passes once. Leaf: what joins a leaf switch to the spine, all its cables as one link.
enum class Tier : std::uint8_t { RankOut, RankIn, Memory, PciOut, PciIn, NicOut, NicIn, LeafUp, LeafDown };
inline constexpr std::size_t kTiers = 9;

/// "rank out", "leaf up", ...
SINEW_API std::string_view name_of(Tier tier) noexcept;

/// How hosts are joined. OneSwitch: it never limits. FatTree: so many hosts on a leaf switch, with all their NICs.
/// RailOptimised: NIC i of every host on leaf i.
enum class NetworkForm : std::uint8_t { OneSwitch, FatTree, RailOptimised };

/// "one_switch", "fat_tree", "rail_optimised".
SINEW_API std::string_view name_of(NetworkForm form) noexcept;

struct LinkRate {
  double bytes_per_s = 0;  ///< 0: never limits
  double latency_s = 0;
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

/// `index`: among the links of its tier. Rank and Pci have one per rank, Memory one per host, Nic one per NIC (those of
/// a host side by side), Leaf one per leaf switch.
struct NetworkLink {
  Tier tier = Tier::RankOut;
  int index = 0;
  friend bool operator==(const NetworkLink&, const NetworkLink&) = default;
};

using Route = InlineVector<NetworkLink, 6>;

/// What joins the ranks of many hosts of one kind: an accelerator each, or on hosts without, a socket. Plain data:
/// links are counted and routes computed, nothing is kept for each of them. Ranks are numbered host by host.
struct SINEW_API Network {
  std::string name;
  NetworkForm form = NetworkForm::OneSwitch;
  int hosts = 1;
  int ranks_per_host = 1;
  int nics_per_host = 1;        ///< side by side ranks share one where there are fewer; one each where there are more
  int hosts_per_leaf = 1;       ///< FatTree
  double oversubscription = 1;  ///< of a leaf: what its hosts' NICs can carry, to what its links to the spine can
  std::array<LinkRate, kTiers> rates{};  ///< of one link; LeafUp and LeafDown: of all that a leaf has
  double reduce_bytes_per_s = 0;         ///< of a rank, `dst = a + b`, counted in bytes of dst; 0: takes no time
  double copy_bytes_per_s = 0;           ///< of a rank; 0: takes no time
  std::vector<int> ranks_on{};           ///< by host, ranks_per_host at most; empty: so many on each
  std::vector<int> nic_by_place{};       ///< which NIC a rank uses, by its place; empty: side by side

  int ranks() const noexcept;
  int host_of(int rank) const noexcept { return ranks_on.empty() ? rank / ranks_per_host : location_of(rank).host; }
  int place_of(int rank) const noexcept { return ranks_on.empty() ? rank % ranks_per_host : location_of(rank).place; }
  /// Of its host's NICs the one that a rank uses.
  int nic_of_place(int place) const noexcept;
  /// The leaf that a host's NIC is on; one switch has none, and says 0.
  int leaf_of(int host, int nic) const noexcept;
  /// Links of a tier.
  int count(Tier tier) const noexcept;
  const LinkRate& rate(Tier tier) const noexcept { return rates[static_cast<std::size_t>(tier)]; }

  /// The links that a message between two different ranks passes, in order. Spine switches never limit, and what
  /// crosses them spreads evenly over a leaf's links.
  Route route(int from, int to) const noexcept;
  /// "nic out 3 of host 12"
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
