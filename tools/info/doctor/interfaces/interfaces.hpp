#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew::doctor {

/// An address of a host, and the interface that has it.
struct HostAddress {
  SocketAddress address;  ///< port 0
  unsigned prefix_bits = 0;
  std::string interface;
  std::uint32_t mtu_bytes = 0;  ///< 0: unknown
  bool works = true;            ///< the interface is switched on and has a link
  bool loopback = false;

  /// "10.0.0.1"
  std::string ip() const;
  /// "eth0 (10.0.0.1)"
  std::string text() const;
};

/// The addresses of this host, without link-local addresses (fe80::), which mean another thing on each interface.
/// `names`: only these interfaces, as in SINEW_INTERFACE; empty: all.
std::vector<HostAddress> addresses_of(std::span<const Nic> nics, const std::string& names);

void write(WireWriter& to, const HostAddress& address);
HostAddress read_address(WireReader& from);

/// True if a cable or a switch joins the two, as far as the addresses tell. False if both hosts have the same address,
/// as bridges of containers do.
bool share_network(const HostAddress& a, const HostAddress& b);

/// A link from one host's address to another's.
struct Link {
  HostAddress from;
  HostAddress to;
  bool routed = false;  ///< they are in no common network
};
/// Every pair of working addresses that share a network. Without such a pair, one pair that a router might join. Both
/// hosts get the same pairs.
std::vector<Link> links_between(std::span<const HostAddress> from, std::span<const HostAddress> to);

/// How many networks of its own `host` shares with any of `others`.
int shared_networks(std::span<const HostAddress> host, std::span<const std::vector<HostAddress>> others);

}  // namespace sinew::doctor
