#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

struct ifaddrs;

namespace sinew {

// `sys`: "/sys", or a folder of that shape, see tests/topology/data.

/// The interfaces of this network namespace (getifaddrs).
SINEW_API std::vector<Nic> read_network_interfaces(std::vector<Unseen>& unseen);

/// Adds what one entry of getifaddrs says of `nic`: an address of IP, or its own.
SINEW_API void add_address(Nic& nic, const ifaddrs& entry);

/// Those that a recorded `sys` lists; without addresses, which it does not hold.
std::vector<Nic> read_recorded_interfaces(const std::filesystem::path& sys, std::vector<Unseen>& unseen);

/// By the kernel's ARPHRD_*: Ethernet, InfiniBand or Other.
NicKind nic_kind_of(unsigned hardware_type);

/// Adds to interfaces what `sys` knows of them: rate, PCI slot, RDMA port; and to the list the RDMA ports that belong
/// to no interface.
SINEW_API void add_sysfs(const std::filesystem::path& sys, std::vector<Nic>& nics);

/// One link per interface that leaves the machine, with its rate.
void add_network_links(Machine& machine);

/// Adds rate, MTU, RDMA port, PCI slot and NUMA node of one interface from `sys`/class/net/NAME. The rate of an
/// interface that is no wire (veth, bridge, loopback), or whose driver names none, stays unknown with that reason.
SINEW_API void add_sysfs_facts(Nic& nic, const std::filesystem::path& sys);

/// One port of `sys`/class/infiniband, as a Nic without addresses: state, rate, link layer, GID, driver, PCI slot, NUMA
/// node.
Nic read_rdma_port(const std::filesystem::path& sys, const std::string& device, int number);

/// All of them.
SINEW_API std::vector<Nic> read_rdma_ports(const std::filesystem::path& sys);

}  // namespace sinew
