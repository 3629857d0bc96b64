#pragma once

#include <span>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/transport_sets.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost_model.hpp>

namespace sinew {

/// The cost model of a group of a World whose messages go by the transports of a set. The numbers are those of Facts.
/// Cost curves are measured between two ranks. So the model knows no shared resource but the core, and callers account
/// for a NIC that several ranks share.
class SINEW_API GroupCosts final : public CostModel {
 public:
  /// All arguments outlive the model. Rank i of the group is `world_ranks[i]`.
  GroupCosts(const Facts& facts, std::span<const int> world_ranks, const TransportSet& set) noexcept
      : facts_(facts), world_ranks_(world_ranks), set_(set) {}

  /// Errors: std::out_of_range if the set has no transport for the two ranks.
  LinkCost link(int from, int to) const override;
  Rate rate(LocalStep step, int rank, DType dtype) const override;
  CostSource source() const override;

 private:
  const Facts& facts_;
  const std::span<const int> world_ranks_;
  const TransportSet& set_;
};

}  // namespace sinew
