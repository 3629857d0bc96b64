#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/imagined_cluster.hpp>
#include <sinew/topology/network.hpp>

namespace sinew::parallel {

/// What a rank computes with, and what joins ranks. Plain data.
struct ClusterSpec {
  std::string name;  ///< "dgx-h100x64"
  Network network;
  double flops = 0;                  ///< of one rank, per second, of products of 16-bit elements without sparsity
  double memory_bytes_per_s = 0;     ///< of one rank's memory
  std::int64_t memory_bytes = 0;     ///< of one rank
  std::vector<std::string> sources;  ///< where each figure is from

  int ranks() const noexcept { return network.ranks(); }
};

/// In the place of what a datasheet says.
struct ClusterRates {
  std::optional<double> flops{}, memory_bytes_per_s{};
  std::optional<std::int64_t> memory_bytes{};
};

/// Errors: InvalidArgument where an accelerator or processor is in no table here and `given` does not say what it can,
///         with the names that are known; for figures that are not above 0; where hosts have unequal numbers of ranks.
SINEW_API ClusterSpec cluster_spec(const ImaginedCluster& on, const ClusterRates& given = {});

}  // namespace sinew::parallel
