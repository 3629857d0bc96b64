#include "slurm_hosts.hpp"

#include <sinew/collectives/launch/slurm.hpp>
#include <sinew/core/system/host_name.hpp>

#include "this_host.hpp"

namespace sinew::run {
namespace {

/// Slurm's name of a node is its own affair (SLURMD_NODENAME), most often the host's without its domain.
bool is_this_node(const Lookup& lookup, const std::string& node) {
  if (node == lookup("SLURMD_NODENAME")) return true;
  const std::string host = host_name();
  return node == host || node == host.substr(0, host.find('.'));
}

}  // namespace

std::vector<HostShare> slurm_hosts(const Lookup& lookup) {
  std::vector<HostShare> shares;
  const auto nodes = slurm_allocation(lookup);
  if (!nodes) return shares;
  for (const SlurmNode& n : *nodes) {
    shares.push_back({is_this_node(lookup, n.name) ? std::string() : n.name, n.tasks});
  }
  return shares;
}

}  // namespace sinew::run
