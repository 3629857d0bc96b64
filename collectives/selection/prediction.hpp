#pragma once

#include <cstdint>
#include <vector>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/group_shape.hpp>
#include <sinew/collectives/selection/option.hpp>
#include <sinew/collectives/selection/transport_sets.hpp>
#include <sinew/core/call/cost_model.hpp>

namespace sinew {

/// A caller that gives no bound has more than a few bytes, or would know.
inline constexpr std::uint64_t kUnknownBytes = 1 << 20;

/// The size of the call is known to each rank only, and the caller has given no bound.
bool has_unknown_size(const CollectiveDesc& desc);
/// The size of a call, in bytes, that predictions and rules go by.
std::uint64_t size_to_select_by(const CollectiveDesc& desc, int ranks);

/// Predicts how long candidates that send messages take in a group. Pure.
class Predictor {
 public:
  /// Both outlive it.
  Predictor(const Facts& facts, const GroupShape& shape) : facts_(facts), shape_(shape) {}

  /// The options of one algorithm that supports the call: one for each set of transports. They refer to the sets.
  std::vector<Option> flat(const CollectiveDesc& desc, const Algorithm& algorithm,
                           const std::vector<TransportSet>& sets) const;
  /// The best hierarchical composition on these transports. The option refers to `set`; rejected if there is none.
  Option hierarchical(const CollectiveDesc& desc, const TransportSet& set) const;

 private:
  /// Which links of a set.
  enum class Links : std::uint8_t { All, InsideHosts, AcrossHosts };
  /// Of a rank: how long its links are busy, and how long the chains of messages take, of which each segment's is one
  /// and some are under way at a time. A call takes as long as the longer of the two; what is pipelined, the first.
  struct Times {
    Seconds busy = 0, in_turns = 0;
    Seconds across = 0;  ///< of the first, between hosts
  };
  /// Which part of a rank's messages, and of their bytes, leaves its host; what does not goes over the links inside.
  struct Leaving {
    double messages = 1;    ///< of the longest chain of messages
    double bytes = 1;       ///< of those
    double of_busiest = 1;  ///< bytes, of the rank of which most leave
  };

  /// `cost` of a call on `bytes`, over the slowest of these links.
  Times on_links(const CollectiveDesc& desc, const AlgorithmCost& cost, double bytes, const CostModel& costs,
                 Links links, const Segments& segmented, const Leaving& leaving) const;
  /// The time that a rank spends to start so many sends, inside its host or across hosts.
  Seconds sending(double messages, const CostModel& costs, Links links) const;
  /// At least as long: what a NIC takes to send what leaves its host by it, however many ranks send at a time.
  Seconds crossing(std::uint64_t leaving, const CostModel& costs) const;
  /// Of what crosses hosts in a composition, the part that one NIC sends: as much as ranks share it.
  double part_of_nic(const CollectiveDesc& desc, const TransportSet& set) const;
  Times predict(const CollectiveDesc& desc, const HierarchicalAlgorithm& how, const TransportSet& set,
                const CostModel& costs, const Segments& segmented) const;
  template <class Add>
  void for_each_stage(const CollectiveDesc& desc, const HierarchicalAlgorithm& how, const Add& add) const;
  std::uint64_t scratch_of(const CollectiveDesc& desc, const HierarchicalAlgorithm& how, const TransportSet& set) const;

  const Facts& facts_;
  const GroupShape& shape_;
};

}  // namespace sinew
