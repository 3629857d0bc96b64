#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/topology/cluster/rank_bindings.hpp>
#include <sinew/topology/machine.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// How hosts are joined. What is not given is as usual.
struct NetworkShape {
  NetworkForm form = NetworkForm::OneSwitch;
  std::optional<int> hosts_per_leaf{};       ///< of a FatTree: 32
  std::optional<double> oversubscription{};  ///< of the leaves of a FatTree or RailOptimised: 1
};

/// A cluster that need not be here: hosts of one machine, ranks on them, and what joins them.
struct SINEW_API VirtualCluster {
  std::string name;               ///< as it was asked for: "dgx-h100x8"
  Machine machine;                ///< every host is one
  std::vector<RankBinding> bindings;    ///< by place on a host
  std::vector<std::string> nics;  ///< names of those that ranks may use, by their number in `network`
  Network network;
  std::vector<std::string> assumed;  ///< figures that the machine does not tell, and what is taken instead

  /// Its hosts and who runs where, as a job on it would find them.
  Cluster cluster() const;
};

/// "MACHINExHOSTS", or "MACHINE:3+5" for hosts of so many ranks; else they have one per GPU, or per socket. A machine
/// is what described_machine() takes; a file alone is one host.
/// Errors: Error{InvalidArgument} that shows the form and lists the named machines; that names what `shape` says of
///         leaves that its form has not; as described_machine(), bind_ranks() and one_switch() throw it.
SINEW_API VirtualCluster virtual_cluster_from(const std::string& text, const NetworkShape& shape = {});

}  // namespace sinew
