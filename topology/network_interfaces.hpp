#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sinew/core/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The interfaces of this network namespace (getifaddrs), with what `sys` knows of them: rate, PCI slot, RDMA port;
/// then the RDMA ports that belong to no interface. `sys`: "/sys", or a folder of that shape.
SINEW_API std::vector<Nic> read_network_interfaces(const std::filesystem::path& sys, std::vector<Unseen>& unseen);

/// One link per interface that leaves the machine, with its rate.
void add_network_links(Machine& machine);

/// Adds rate, MTU, RDMA port, PCI slot and NUMA node of one interface from `sys`/class/net/NAME. The rate of an
/// interface that is no wire (veth, bridge, loopback), or whose driver names none, stays unknown with that reason.
SINEW_API void add_sysfs_facts(Nic& nic, const std::filesystem::path& sys);

/// One port of `sys`/class/infiniband, as a Nic without addresses: state, rate, link layer, GID, driver, PCI slot, NUMA
/// node.
Nic read_rdma_port(const std::filesystem::path& sys, const std::string& device, int number);

/// All of them. `sys` may be a recorded tree, see tests/topology/data.
SINEW_API std::vector<Nic> read_rdma_ports(const std::filesystem::path& sys);

}  // namespace sinew
