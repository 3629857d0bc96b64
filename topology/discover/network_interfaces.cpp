#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {
namespace {

/// `mask`: null where the kernel names none.
NicAddress address_of(int family, const std::byte* address, const std::byte* mask) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  NicAddress result{text.data(), 0, family == AF_INET6};
  const std::size_t length = family == AF_INET6 ? sizeof(in6_addr) : sizeof(in_addr);
  for (std::size_t i = 0; mask != nullptr && i < length; ++i) {
    result.prefix += std::popcount(std::to_integer<unsigned>(mask[i]));
  }
  return result;
}

/// Asked of the kernel and not of /sys, which may show another namespace.
std::string driver_of(int socket, const std::string& name) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return {};
  return std::string(info.driver, strnlen(info.driver, sizeof(info.driver)));
}

}  // namespace

void add_address(Nic& nic, const ifaddrs& entry) {
  const auto* any = reinterpret_cast<const std::byte*>(entry.ifa_addr);
  const auto* mask = reinterpret_cast<const std::byte*>(entry.ifa_netmask);
  const int family = entry.ifa_addr->sa_family;
  if (family == AF_INET || family == AF_INET6) {
    const std::size_t at = family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    nic.addresses.push_back(address_of(family, any + at, mask == nullptr ? nullptr : mask + at));
  } else if (family == AF_PACKET) {
    sockaddr_ll link{};
    std::memcpy(&link, any, sizeof(link));
    // InfiniBand's has 20 bytes, of which sll_addr declares 8; getifaddrs gives them all.
    const auto* bytes = reinterpret_cast<const unsigned char*>(any) + offsetof(sockaddr_ll, sll_addr);
    nic.hardware_address = fmt::format("{:02x}", fmt::join(bytes, bytes + link.sll_halen, ":"));
    nic.kind = nic_kind_of(link.sll_hatype);
  }
}

NicKind nic_kind_of(unsigned hardware_type) {
  return hardware_type == ARPHRD_ETHER        ? NicKind::Ethernet
         : hardware_type == ARPHRD_INFINIBAND ? NicKind::InfiniBand
                                              : NicKind::Other;
}

std::vector<Nic> read_network_interfaces(std::vector<Unseen>& unseen) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    unseen.push_back({"network interfaces", fmt::format("getifaddrs: {}", std::strerror(errno))});
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> hold(first, &freeifaddrs);
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<Nic> nics;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto nic = std::ranges::find(nics, std::string_view(entry->ifa_name), &Nic::name);
    if (nic == nics.end()) {
      nic = nics.insert(nics.end(), Nic{.name = entry->ifa_name});
      nic->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      nic->up = (entry->ifa_flags & IFF_UP) != 0;
      nic->running = nic->up && (entry->ifa_flags & IFF_RUNNING) != 0;
      nic->driver = socket ? driver_of(socket.get(), nic->name) : std::string();
    }
    if (entry->ifa_addr != nullptr) add_address(*nic, *entry);
  }
  return nics;
}

void add_sysfs(const std::filesystem::path& sys, std::vector<Nic>& nics) {
  for (Nic& nic : nics) add_sysfs_facts(nic, sys);
  for (Nic& port : read_rdma_ports(sys)) {
    const auto taken = [&](const Nic& nic) {
      return nic.rdma.device == port.rdma.device && nic.rdma.number == port.rdma.number;
    };
    if (std::ranges::none_of(nics, taken)) nics.push_back(std::move(port));
  }
}

void add_network_links(Machine& machine) {
  for (const Nic& nic : machine.nics) {
    if (nic.loopback) continue;
    machine.links.push_back({LinkKind::Network, "nic:" + nic.name, "network", nic.bytes_per_s,
                             Figure::unknown("depends on the peer; not measured")});
  }
}

}  // namespace sinew
