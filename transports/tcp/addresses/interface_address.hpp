#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew::tcp {

/// Where a process listens, and the network and the interface that the address belongs to.
struct SINEW_API InterfaceAddress {
  SocketAddress address;
  std::uint8_t prefix_bits = 0;  ///< of its network; 0: not known
  std::string interface;

  bool network_has(const SocketAddress& other) const noexcept;
  /// 10.0.0.1 (eth0)
  std::string text() const;
};

/// This machine's addresses with `port`; loopback among them for peers on this host, unless `interfaces` (separated by
/// commas) names others.
/// Errors: Error{Unavailable} where that leaves none, naming the interfaces there are.
std::vector<InterfaceAddress> own_addresses(const std::string& interfaces, std::uint16_t port);

}  // namespace sinew::tcp
