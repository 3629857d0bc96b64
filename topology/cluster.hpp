#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/exchange.hpp>
#include <sinew/core/export.hpp>
#include <sinew/topology/machine.hpp>
#include <sinew/topology/rank_place.hpp>

namespace sinew {

/// Where a rank runs.
struct RankSpot {
  int host = 0;           ///< index in Cluster::hosts
  int numa_node = -1;     ///< of that host; -1: not bound to one
  int usable_cores = 1;   ///< of its host, by all its ranks together
  int gpu = -1;           ///< index in its Machine::gpus; -1: none, or none that its machine shows
  int nic = -1;           ///< the nearest, index in its Machine::nics; -1: none carries data (nearest_nic.hpp)
  std::string nic_why{};  ///< "PIX from gpu:0"
  friend bool operator==(const RankSpot&, const RankSpot&) = default;
};

/// All hosts of a job and which rank runs where: equal on all ranks.
struct SINEW_API Cluster {
  std::vector<Machine> hosts;  ///< in the order of their first ranks
  std::vector<RankSpot> ranks;

  /// Ranks ascending in each group, groups in the order of their first ranks.
  std::vector<std::vector<int>> groups_by_host() const;
  /// By host and NUMA node; the ranks of a host that are bound to no node form a group of their own.
  std::vector<std::vector<int>> groups_by_numa() const;
  /// The ranks that share `rank`'s host, itself among them.
  std::vector<int> ranks_on_host(int rank) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// The lowest rank of every host, ascending: the ranks that publish their Machine in the second round.
SINEW_API std::vector<int> host_leaders(std::span<const RankPlace> places);

/// `machines`: by rank, as machine_bytes() made them; looked at for leaders only.
/// Errors: Error{InvalidArgument} naming the rank whose bytes are absent, broken or of another host than its place;
///         Error{System} with a leader's own message where its discovery threw.
SINEW_API Cluster merge_cluster(std::span<const RankPlace> places, std::span<const Bytes> machines);

/// Have the NICs of all ranks IPv4 addresses of one network? Then they reach each other, whatever else there is.
SINEW_API bool nics_share_network(const Cluster& cluster);

/// What a leader publishes; if discovery throws, the error instead, so that no rank waits for it.
SINEW_API Bytes machine_bytes(const Config& config);

/// Two rounds of the exchange, whatever goes wrong: places of all ranks, machines of the leaders. Only leaders look at
/// their machine. `gpu`: as place_of_this_process() takes it.
SINEW_API Cluster gather_cluster(const Exchange& exchange, const Config& config, const std::string& gpu = {});

}  // namespace sinew
