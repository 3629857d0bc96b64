#include <sys/socket.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/tcp/addresses/peer_address.hpp>

namespace sinew::tcp {
namespace {

constexpr std::uint64_t kAddressMagic = 0x33'70'63'74'77'65'6e'73;  // "snewtcp3"

std::string family_names(const std::vector<InterfaceAddress>& addresses) {
  std::set<std::string_view> names;
  for (const InterfaceAddress& a : addresses) names.insert(a.address.family() == AF_INET ? "IPv4" : "IPv6");
  return names.empty() ? "no" : fmt::format("{}", fmt::join(names, " and "));
}

std::vector<InterfaceAddress> without_loopback(std::vector<InterfaceAddress> all) {
  std::erase_if(all, [](const InterfaceAddress& a) { return a.address.is_loopback(); });
  return all;
}

}  // namespace

Address PeerAddress::encode() const {
  WireWriter w;
  w.value(kAddressMagic).value(rank).value(instance).text(host_id).value(streams);
  w.value(static_cast<std::uint32_t>(addresses.size()));
  for (const InterfaceAddress& a : addresses) w.text(a.address.text()).value(a.prefix_bits).text(a.interface);
  return w.take();
}

PeerAddress PeerAddress::decode(const Address& bytes) {
  WireReader r(bytes);
  if (bytes.size() < sizeof kAddressMagic || r.value<std::uint64_t>() != kAddressMagic) {
    throw Error(Code::Mismatch, fmt::format("{} bytes that are not the address of a tcp transport", bytes.size()));
  }
  PeerAddress p;
  p.rank = r.value<std::int32_t>();
  p.instance = r.value<std::uint64_t>();
  p.host_id = r.text();
  p.streams = r.value<std::uint8_t>();
  const auto count = r.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    InterfaceAddress& a = p.addresses.emplace_back();
    a.address = SocketAddress::parse(r.text());
    a.prefix_bits = r.value<std::uint8_t>();
    a.interface = r.text();
  }
  return p;
}

Routes routes_to(const PeerAddress& peer, const PeerAddress& self) {
  Routes routes;
  const bool same_host = peer.host_id == self.host_id;
  const std::vector<InterfaceAddress> there = same_host ? peer.addresses : without_loopback(peer.addresses);
  const std::vector<InterfaceAddress> here = same_host ? self.addresses : without_loopback(self.addresses);
  for (const InterfaceAddress& a : there) {
    const auto same_family = [&a](const InterfaceAddress& b) { return a.address.family() == b.address.family(); };
    if (std::ranges::any_of(here, same_family)) routes.candidates.push_back(a.address);
  }
  const auto is_on_link = [&self](const SocketAddress& a) {
    return std::ranges::any_of(self.addresses, [&a](const InterfaceAddress& own) { return own.network_has(a); });
  };
  // That of a bridge, which many hosts have: it leads to this one.
  const auto is_here_too = [&](const SocketAddress& a) {
    const auto is_same = [text = a.with_port(0).text()](const InterfaceAddress& own) {
      return own.address.with_port(0).text() == text;
    };
    return !same_host && std::ranges::any_of(here, is_same);
  };
  const auto rank = [&](const SocketAddress& a) {
    return a.is_loopback() ? 0 : is_here_too(a) ? 3 : is_on_link(a) ? 1 : 2;
  };
  std::ranges::stable_sort(routes.candidates, {}, rank);
  if (routes.candidates.empty()) {
    routes.reason = fmt::format("rank {} has {} addresses for other hosts, this rank has {}", peer.rank,
                                family_names(there), family_names(here));
  }
  return routes;
}

}  // namespace sinew::tcp
