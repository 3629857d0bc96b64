#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/network.hpp>
#include <sinew/topology/virtual_cluster.hpp>

namespace sinew::parallel {

/// The hardware of a rank, and the network between ranks. Plain data.
struct ClusterSpec {
  std::string name;  ///< "dgx-h100x64"
  Network network;
  double flops = 0;                  ///< of one rank, per second, for products of 16-bit elements without sparsity
  double memory_bytes_per_s = 0;     ///< of one rank's memory
  std::int64_t memory_bytes = 0;     ///< of one rank
  std::vector<std::string> sources;  ///< where each figure comes from

  int ranks() const noexcept { return network.ranks(); }
};

/// Figures that replace those of the datasheets.
struct ClusterRates {
  std::optional<double> flops{}, memory_bytes_per_s{};
  std::optional<std::int64_t> memory_bytes{};
};

/// Errors: InvalidArgument for an accelerator or processor that is in no table here, if `given` does not have its
///         figures, with the names that are known. For figures that are not above 0. If hosts have unequal numbers of
///         ranks.
SINEW_API ClusterSpec cluster_spec(const VirtualCluster& on, const ClusterRates& given = {});

}  // namespace sinew::parallel
