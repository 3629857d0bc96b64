#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <ranges>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/addresses/interface_address.hpp>

namespace sinew::tcp {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("tcp: listing network interfaces");
  return {list, &::freeifaddrs};
}

std::string interface_names() {
  std::set<std::string> names;
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) names.insert(i->ifa_name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::span<const unsigned char> ip_bytes(const sockaddr* a) {
  if (a->sa_family == AF_INET) {
    return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr), 4};
  }
  return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr), 16};
}

bool has_ip(const ifaddrs& i, const SocketAddress& a) {
  return i.ifa_addr != nullptr && i.ifa_addr->sa_family == a.family() &&
         std::ranges::equal(ip_bytes(i.ifa_addr), ip_bytes(a.data()));
}

/// With the network and the interface that it is of.
InterfaceAddress described(const SocketAddress& address, const ifaddrs* list) {
  InterfaceAddress a{address, 0, {}};
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (!has_ip(*i, address)) continue;
    a.interface = i->ifa_name;
    if (i->ifa_netmask == nullptr) break;
    for (const unsigned char b : ip_bytes(i->ifa_netmask)) a.prefix_bits += static_cast<std::uint8_t>(std::popcount(b));
    break;
  }
  return a;
}

}  // namespace

bool InterfaceAddress::network_has(const SocketAddress& other) const noexcept {
  return address.shares_network(other, prefix_bits);
}

std::string InterfaceAddress::text() const {
  const std::string where = address.text();
  return fmt::format("{} ({})", where.substr(0, where.rfind(':')), interface);
}

std::vector<InterfaceAddress> own_addresses(const std::string& names, std::uint16_t port) {
  std::vector<SocketAddress> all = SocketAddress::own(names, port);
  if (names.empty()) {
    const auto loopback = SocketAddress::own("lo", port);
    all.insert(all.end(), loopback.begin(), loopback.end());
  }
  if (all.empty()) {
    throw Error(Code::Unavailable,
                fmt::format("tcp: {} has no address that is up; there are {}",
                            names.empty() ? "this machine" : "SINEW_INTERFACE=" + names, interface_names()));
  }
  std::vector<InterfaceAddress> described_all;
  const Interfaces list = interfaces();
  for (const SocketAddress& a : all) described_all.push_back(described(a, list.get()));
  for (const auto word : std::views::split(std::string_view(names), ',')) {
    const std::string_view name(word.begin(), word.end());
    if (name.empty() || std::ranges::find(described_all, name, &InterfaceAddress::interface) != described_all.end())
      continue;
    log::warning("tcp: SINEW_INTERFACE={}: '{}' has no address that is up and is left out; there are {}", names, name,
                 interface_names());
  }
  return described_all;
}

}  // namespace sinew::tcp
