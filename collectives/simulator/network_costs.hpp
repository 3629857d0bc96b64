#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost_model.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// The cost model of a described network. It has the ranks of the network. The simulator runs schedules with its
/// numbers, and a World on a virtual cluster predicts with them.
class SINEW_API NetworkCosts final : public CostModel {
 public:
  /// `network` outlives the model.
  explicit NetworkCosts(const Network& network) noexcept : network_(network) {}

  LinkCost link(int from, int to) const override;
  Rate rate(LocalStep step, int rank, DType dtype) const override;
  CostSource source() const override { return CostSource::Catalog; }

 private:
  const Network& network_;
};

}  // namespace sinew
