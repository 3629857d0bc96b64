#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/config.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/topology/cluster/rank_place.hpp>

namespace sinew {

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
