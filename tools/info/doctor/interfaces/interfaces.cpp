#include "interfaces.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/base/name_list.hpp>

namespace sinew::doctor {
namespace {

/// The first that works and that the other host has not; nullptr: none.
const HostAddress* first_of(std::span<const HostAddress> addresses, std::span<const HostAddress> others, int family) {
  const auto found = std::ranges::find_if(addresses, [&](const HostAddress& a) {
    return a.works && !a.loopback && a.address.family() == family &&
           std::ranges::find(others, a.ip(), &HostAddress::ip) == others.end();
  });
  return found == addresses.end() ? nullptr : &*found;
}

}  // namespace

std::string HostAddress::ip() const {
  const std::string with_port = address.text();
  return with_port.substr(0, with_port.rfind(':'));
}

std::string HostAddress::text() const { return fmt::format("{} ({})", interface, ip()); }

std::vector<HostAddress> addresses_of(std::span<const Nic> nics, const std::string& names) {
  std::vector<HostAddress> all;
  for (const Nic& nic : nics) {
    if (!names.empty() && !is_among(names, nic.name)) continue;
    for (const NicAddress& a : nic.addresses) {
      if (a.v6 && a.text.starts_with("fe80:")) continue;
      const std::string text = a.v6 ? fmt::format("[{}]:0", a.text) : a.text + ":0";
      all.push_back({SocketAddress::parse(text), static_cast<unsigned>(a.prefix), nic.name, nic.mtu_bytes,
                     nic.up && nic.running, nic.loopback});
    }
  }
  return all;
}

void write(WireWriter& to, const HostAddress& a) {
  to.text(a.address.text()).value(a.prefix_bits).text(a.interface).value(a.mtu_bytes).value(a.works).value(a.loopback);
}

HostAddress read_address(WireReader& from) {
  HostAddress a;
  a.address = SocketAddress::parse(from.text());
  a.prefix_bits = from.value<unsigned>();
  a.interface = from.text();
  a.mtu_bytes = from.value<std::uint32_t>();
  a.works = from.value<bool>();
  a.loopback = from.value<bool>();
  return a;
}

bool share_network(const HostAddress& a, const HostAddress& b) {
  return !a.loopback && !b.loopback && a.prefix_bits == b.prefix_bits &&
         a.address.shares_network(b.address, a.prefix_bits) && a.ip() != b.ip();
}

std::vector<Link> links_between(std::span<const HostAddress> from, std::span<const HostAddress> to) {
  std::vector<Link> links;
  for (const HostAddress& a : from) {
    for (const HostAddress& b : to) {
      if (a.works && b.works && share_network(a, b)) links.push_back({a, b});
    }
  }
  for (const int family : {AF_INET, AF_INET6}) {
    const HostAddress* a = first_of(from, to, family);
    const HostAddress* b = first_of(to, from, family);
    if (links.empty() && a != nullptr && b != nullptr) links.push_back({*a, *b, true});
  }
  return links;
}

int shared_networks(std::span<const HostAddress> host, std::span<const std::vector<HostAddress>> others) {
  return static_cast<int>(std::ranges::count_if(host, [&](const HostAddress& mine) {
    return std::ranges::any_of(others, [&](const std::vector<HostAddress>& other) {
      return std::ranges::any_of(other, [&](const HostAddress& theirs) { return share_network(mine, theirs); });
    });
  }));
}

}  // namespace sinew::doctor
