#pragma once

#include <span>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/transport_sets.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost_model.hpp>

namespace sinew {

/// What things take in a group of a World whose messages go by the transports of a set, as the table of facts says.
/// Curves are measured between two ranks, so no resource but the core is known by name: callers count what leaves a
/// host by one NIC.
class SINEW_API GroupCosts final : public CostModel {
 public:
  /// All outlive it. Rank i of the group is `world_ranks[i]`.
  GroupCosts(const Facts& facts, std::span<const int> world_ranks, const TransportSet& set) noexcept
      : facts_(facts), world_ranks_(world_ranks), set_(set) {}

  /// Errors: std::out_of_range where the set has no transport for the two.
  LinkCost link(int from, int to) const override;
  Rate rate(LocalStep step, int rank, DType dtype) const override;
  CostSource source() const override;

 private:
  const Facts& facts_;
  const std::span<const int> world_ranks_;
  const TransportSet& set_;
};

}  // namespace sinew
