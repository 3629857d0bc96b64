#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/wire.hpp>
#include <sinew/transports/tcp/peer_address.hpp>

namespace sinew::tcp {
namespace {

constexpr std::uint64_t kMagic = 0x31'70'63'74'77'65'6e'73;  // "snewtcp1"

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("tcp: listing network interfaces");
  return {list, &::freeifaddrs};
}

std::span<const unsigned char> ip_bytes(const sockaddr* a) {
  if (a->sa_family == AF_INET) {
    return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr), 4};
  }
  return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr), 16};
}

/// Is there an interface whose network the address belongs to?
bool is_on_link(const SocketAddress& address) {
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_netmask == nullptr || i->ifa_addr->sa_family != address.family()) continue;
    const auto own = ip_bytes(i->ifa_addr);
    const auto mask = ip_bytes(i->ifa_netmask);
    const auto other = ip_bytes(address.data());
    bool same = true;
    for (std::size_t k = 0; k < own.size(); ++k) same = same && ((own[k] ^ other[k]) & mask[k]) == 0;
    if (same) return true;
  }
  return false;
}

std::string interface_names() {
  std::set<std::string> names;
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) names.insert(i->ifa_name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string family_names(const std::vector<SocketAddress>& addresses) {
  std::set<std::string_view> names;
  for (const SocketAddress& a : addresses) names.insert(a.family() == AF_INET ? "IPv4" : "IPv6");
  return names.empty() ? "no" : fmt::format("{}", fmt::join(names, " and "));
}

std::vector<SocketAddress> without_loopback(std::vector<SocketAddress> all) {
  std::erase_if(all, [](const SocketAddress& a) { return a.is_loopback(); });
  return all;
}

}  // namespace

Address PeerAddress::encode() const {
  WireWriter w;
  w.value(kMagic).value(rank).value(instance).text(host_id).value(static_cast<std::uint32_t>(addresses.size()));
  for (const SocketAddress& a : addresses) w.text(a.text());
  return w.take();
}

PeerAddress PeerAddress::decode(const Address& bytes) {
  WireReader r(bytes);
  if (bytes.size() < sizeof kMagic || r.value<std::uint64_t>() != kMagic) {
    throw Error(Code::Mismatch, fmt::format("{} bytes that are not the address of a tcp transport", bytes.size()));
  }
  PeerAddress p;
  p.rank = r.value<std::int32_t>();
  p.instance = r.value<std::uint64_t>();
  p.host_id = r.text();
  const auto count = r.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) p.addresses.push_back(SocketAddress::parse(r.text()));
  return p;
}

std::vector<SocketAddress> own_addresses(const std::string& interface, std::uint16_t port) {
  std::vector<SocketAddress> all = SocketAddress::own(interface, port);
  if (interface.empty()) {
    const auto loopback = SocketAddress::own("lo", port);
    all.insert(all.end(), loopback.begin(), loopback.end());
  }
  if (all.empty()) {
    throw Error(Code::Unavailable,
                fmt::format("tcp: {} has no address that is up; there are {}",
                            interface.empty() ? "this machine" : "SINEW_INTERFACE=" + interface, interface_names()));
  }
  return all;
}

Routes routes_to(const PeerAddress& peer, const PeerAddress& self) {
  Routes routes;
  const bool same_host = peer.host_id == self.host_id;
  const std::vector<SocketAddress> there = same_host ? peer.addresses : without_loopback(peer.addresses);
  const std::vector<SocketAddress> here = same_host ? self.addresses : without_loopback(self.addresses);
  for (const SocketAddress& a : there) {
    const bool family = std::ranges::any_of(here, [&a](const SocketAddress& b) { return a.family() == b.family(); });
    if (family) routes.candidates.push_back(a);
  }
  const auto rank = [](const SocketAddress& a) { return a.is_loopback() ? 0 : is_on_link(a) ? 1 : 2; };
  std::ranges::stable_sort(routes.candidates, {}, rank);
  if (routes.candidates.empty()) {
    routes.reason = fmt::format("rank {} has {} addresses for other hosts, this rank has {}", peer.rank,
                                family_names(there), family_names(here));
  }
  return routes;
}

}  // namespace sinew::tcp
