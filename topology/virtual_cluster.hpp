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

/// The network that joins the hosts. Members that are not given have their usual values.
struct NetworkShape {
  NetworkForm form = NetworkForm::OneSwitch;
  std::optional<int> hosts_per_leaf{};       ///< for FatTree; usually 32
  std::optional<double> oversubscription{};  ///< of the leaves, for FatTree and RailOptimised; usually 1
};

/// A cluster that need not exist: equal hosts, the ranks on them, and the network that joins them.
struct SINEW_API VirtualCluster {
  std::string name;                   ///< the text that was asked for, such as "dgx-h100x8"
  Machine machine;                    ///< each host
  std::vector<RankBinding> bindings;  ///< by the rank's number on its host
  std::vector<std::string> nics;      ///< the names of the NICs that ranks may use, by their number in `network`
  Network network;
  std::vector<std::string> assumed;  ///< figures that the machine does not tell, and the values that are used instead

  /// The hosts and the places of ranks, as a job on the cluster would find them.
  Cluster cluster() const;
};

/// Makes a virtual cluster from "MACHINExHOSTS", or from "MACHINE:3+5" for hosts with these numbers of ranks. In the
/// first form, hosts have a rank for each GPU or socket (usual_ranks()). MACHINE is a text for described_machine(). A
/// machine alone is one host.
/// Errors: Error{InvalidArgument} that shows the form and lists the named machines. Also if `shape` describes leaves
///         that its form does not have. Also those of described_machine(), bind_ranks() and one_switch().
SINEW_API VirtualCluster virtual_cluster_from(const std::string& text, const NetworkShape& shape = {});

}  // namespace sinew
