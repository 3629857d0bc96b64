#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/group_shape.hpp>

namespace sinew {

/// Pieces large enough to move at full rate and small enough that neighbours overlap, and how many at a time.
inline constexpr Segmentation kSegmentation{.segment_bytes = 512 << 10, .depth = 4};

/// Between hosts a piece is asked for, and its end told, in as long as a link takes for several: so many keep it busy.
inline constexpr std::uint32_t kDepthAcrossHosts = 8;

/// Which transport each pair of a group takes: one for all, or the best of each class of links.
struct TransportSet {
  std::string label;  ///< "shm", "shm+tcp"
  std::map<LinkClass, std::string> by_class;
  bool by_nic = false;  ///< what leaves a host leaves it by the NIC of its rank, else by one that all share
  std::uint64_t most_scratch = kScratchBytes;  ///< that a call on it may hold beside its buffers
};

/// The sets of transports that a group can run calls on.
class TransportSets {
 public:
  TransportSets(const Facts& facts, const GroupShape& shape);

  const std::vector<TransportSet>& usable() const noexcept { return usable_; }
  /// A rejected candidate, with the reason, for each transport that does not connect all pairs of ranks.
  const std::vector<Candidate>& rejected() const noexcept { return rejected_; }
  /// The set for point to point: the cheapest transport for each class of links.
  const TransportSet& cheapest() const noexcept { return cheapest_; }

 private:
  std::vector<TransportSet> usable_;
  std::vector<Candidate> rejected_;
  TransportSet cheapest_;
};

/// How a call on `set` is cut that holds `scratch_bytes` beside its buffers if it is not cut.
Segmentation segmentation_on(const TransportSet& set, const GroupShape& shape, std::uint64_t scratch_bytes) noexcept;

}  // namespace sinew
