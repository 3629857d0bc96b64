#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/transport.hpp>

namespace sinew::ofi {

/// What an Address says.
struct PeerAddress {
  std::int32_t rank = -1;
  std::uint64_t instance = 0;  ///< random: tells a transport from one that came back at the same place
  std::string host_id;
  std::string provider;
  bool device_memory = false;  ///< may receive into its device's memory
  std::uint32_t format = 0;    ///< FI_SOCKADDR_IN, ...: only equal ones understand each other
  std::string place;           ///< of providers that work within a place only; else empty
  Bytes name;                  ///< the provider's own address

  Address encode() const;
  /// Errors: Error{Mismatch} where the bytes are not of this kind.
  static PeerAddress decode(const Address& bytes);
};

/// Why `self` cannot reach `peer`; empty: it can.
std::string obstacle_between(const PeerAddress& self, const PeerAddress& peer);

}  // namespace sinew::ofi
