#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/transport.hpp>
#include <sinew/transports/ofi/provider/domain.hpp>

namespace sinew::ofi {

/// A rail behind the first.
struct RailName {
  std::string network;  ///< libfabric's fabric: rails of two hosts with the same one reach each other
  Bytes name;           ///< the provider's own address
};

/// What an Address says.
struct PeerAddress {
  std::int32_t rank = -1;
  std::uint64_t instance = 0;  ///< random: tells a transport from one that came back at the same place
  std::string host_id;
  std::string provider;
  bool device_memory = false;  ///< may receive into its device's memory
  std::uint32_t format = 0;    ///< FI_SOCKADDR_IN, ...: only equal ones understand each other
  std::string place;           ///< of providers that work within a place only; else empty
  Bytes name;                  ///< the provider's own address, of the first rail
  std::vector<RailName> further;

  Address encode() const;
  /// Errors: Error{Mismatch} where the bytes are not of this kind.
  static PeerAddress decode(const Address& bytes);
};

/// One further rail here, and one of the peer's, by their places in PeerAddress::further.
struct RailPair {
  std::size_t here = 0;
  std::size_t there = 0;
};
/// The rails of two ranks behind their first, in an order that both sides find: those of the same network, each once.
/// Ranks of one host have none. An address that both have (a bridge of containers, say) is none where they could meet.
std::vector<RailPair> rails_between(const PeerAddress& self, const PeerAddress& peer);

/// Why `self` cannot reach `peer`; empty: it can.
std::string obstacle_between(const PeerAddress& self, const PeerAddress& peer);

}  // namespace sinew::ofi
