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
  std::string name{};  ///< "dgx-h100x64"
  Network network{};
  double flops = 0;                    ///< operations per second of one rank, for dense products of 16-bit elements
  double memory_bytes_per_s = 0;       ///< the bandwidth of one rank's memory
  std::int64_t memory_bytes = 0;       ///< the size of one rank's memory
  std::vector<std::string> sources{};  ///< where each figure comes from

  int ranks() const noexcept { return network.ranks(); }
};

/// Figures that replace those of the datasheets.
struct ClusterRates {
  std::optional<double> flops{}, memory_bytes_per_s{};
  std::optional<std::int64_t> memory_bytes{};
};

/// Errors: InvalidArgument for an accelerator or processor that is in no table here, if `given` lacks its figures; the
///         text has the known names. It is also thrown for figures that are not above 0, and if hosts have unequal
///         numbers of ranks.
SINEW_API ClusterSpec cluster_spec(const VirtualCluster& on, const ClusterRates& given = {});

}  // namespace sinew::parallel
