#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/transports/tcp/addresses/interface_address.hpp>

namespace sinew::tcp {

/// What an Address says: who listens, on which host, and every address where it may be reached.
struct SINEW_API PeerAddress {
  std::int32_t rank = -1;
  std::uint64_t instance = 0;  ///< random: tells a rank from one that came back on the same port
  std::string host_id;
  std::vector<InterfaceAddress> addresses;
  std::uint8_t streams = 1;  ///< data connections that this rank wants for each pair of interfaces

  Address encode() const;
  /// Errors: Error{Mismatch} where the bytes are not of this kind.
  static PeerAddress decode(const Address& bytes);
};

/// Where to try to reach the peer, best first: loopback on the same host, then networks this machine is on, then what
/// routing may reach.
struct Routes {
  std::vector<SocketAddress> candidates;
  std::string reason;  ///< where there are none
};
SINEW_API Routes routes_to(const PeerAddress& peer, const PeerAddress& self);

}  // namespace sinew::tcp
