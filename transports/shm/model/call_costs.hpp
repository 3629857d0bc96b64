#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/transports/shm/model/host_costs.hpp>
#include <sinew/transports/shm/model/levels.hpp>
#include <sinew/transports/shm/model/protocol.hpp>

namespace sinew::shm {

/// The parts of a call on which its costs depend.
struct ModelCall {
  Collective collective = Collective::AllReduce;
  std::uint64_t bytes = 0;  ///< of CollectiveDesc::count elements
  int root = 0;
  std::uint64_t chunk_bytes = 64 << 10;  ///< the longest chunk that the facts permit
};

/// The protocols that can run a call on so many ranks, without those that always lose. Calls are barriers, broadcasts,
/// reductions to all or to a root, and all_gathers.
SINEW_API std::vector<Protocol> protocols_for(const ModelCall& call, int ranks);

/// Closed formulas for the time of a call by each protocol. They count lines and bytes by what the ranks share, and the
/// bytes on each memory and link. They do not see when ranks wait for each other, for a line or for a link.
class SINEW_API CallCosts {
 public:
  CallCosts(Levels levels, const HostCosts& costs);

  const Levels& levels() const noexcept { return levels_; }
  const HostCosts& costs() const noexcept { return costs_; }
  Seconds seconds(const ModelCall& call, Protocol protocol) const;
  /// The protocol with the least seconds.
  Protocol fastest(const ModelCall& call) const;

 private:
  /// The ranks, or the caches, that a rank shares a part with, by the innermost such part.
  using Counts = std::array<double, kShared>;

  Counts ranks_near(int rank) const;
  Counts caches_near(int rank) const;
  Seconds looks(const Counts& ranks, double bytes) const;
  Seconds farthest_line_s(const Counts& ranks) const;
  Seconds shared_read(int root, double bytes) const;
  Seconds all_to_all_links(double bytes_per_pair) const;
  Seconds from_root_links(int root, double bytes) const;
  Seconds flat(const ModelCall& call) const;
  Seconds tree(const ModelCall& call, int fan_in, double shown, double behind) const;
  Seconds tree_chunks(const ModelCall& call) const;
  Seconds slot(const ModelCall& call) const;
  Seconds chunks(const ModelCall& call) const;

  Levels levels_;
  HostCosts costs_;
  Counts usual_{};                // of the average rank
  std::vector<int> node_of_;      // by rank
  std::vector<int> in_node_;      // ranks by NUMA node
  std::vector<int> socket_of_;    // by NUMA node
  double most_across_links_ = 0;  // seconds on the busiest memory or link, for a byte from each rank to each other
};

}  // namespace sinew::shm
