#pragma once

#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/host_parts.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Sets RankSpot::cache and RankSpot::package of a rank that may run on `cpus`, as the kernel numbers them.
SINEW_API void set_parts(const Machine& machine, std::span<const int> cpus, RankSpot& spot);

/// The caches, NUMA nodes and sockets that ranks of one host are in, from the inside out. `ranks`: their numbers in
/// `cluster`.
SINEW_API std::vector<PartsOfRanks> parts_of_ranks(const Cluster& cluster, std::span<const int> ranks);

}  // namespace sinew
