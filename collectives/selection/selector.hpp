#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/group_shape.hpp>
#include <sinew/collectives/selection/option.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/selection/transport_sets.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The outcome: what to run, and the account of it.
struct Selection {
  Plan plan;
  NamedOffload* offload = nullptr;
  std::optional<Recipe> recipe;  ///< where no offload was taken
  bool staged = false;           ///< device memory that goes through the host: neither of the two above
  TransportSet transports;
  Segmentation segmentation;
};

/// Chooses for one group: a pure function of the call and of the shared table, so that all ranks choose alike.
class SINEW_API Selector {
 public:
  /// `numa_nodes`: of each rank on its host, below 0: bound to none; empty: nobody knows.
  Selector(const Facts& facts, std::vector<int> world_ranks, std::span<NamedOffload> offloads,
           const std::vector<int>& numa_nodes = {});

  /// Errors: Error{InvalidArgument} where nothing can run the call or a user's rule leaves nothing, with every reason,
  ///         and where a LayoutInvariant call does not fit its leaf blocks.
  Selection select(const CollectiveDesc& desc) const;
  /// Which transport carries messages between two ranks of the group (their places in it).
  const std::string& transport_between(const TransportSet& set, int a, int b) const;
  /// The set for point to point: the cheapest for each class.
  const TransportSet& cheapest() const noexcept { return sets_.cheapest(); }

 private:
  Selection select_message(const CollectiveDesc& desc) const;
  std::vector<Option> options(const CollectiveDesc& desc) const;
  Option staged_option(const CollectiveDesc& desc) const;

  const Facts& facts_;
  std::span<NamedOffload> offloads_;
  GroupShape shape_;
  TransportSets sets_;
};

}  // namespace sinew
