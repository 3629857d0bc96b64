#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/transport.hpp>

namespace sinew::ucx {

/// The most rails between two ranks.
inline constexpr std::size_t kMostRails = 2;

/// A rail of a rank (rails.hpp): a worker of UCX over one network.
struct RailAddress {
  std::string network;  ///< such as 10.0.1.0/24: rails of two hosts with the same one reach each other
  std::string machine;  ///< the rank's own address in it
  Bytes worker;         ///< UCX's own
};

/// What an Address says.
struct PeerAddress {
  std::int32_t rank = -1;
  std::uint64_t instance = 0;  ///< random, of the transport; its low half is the token of frames to it
  std::string host_id;
  bool leads_elsewhere = false;  ///< has a network transport
  bool device_memory = false;    ///< may receive into its device's memory
  Bytes worker;                  ///< UCX's own
  std::vector<RailAddress> rails;

  std::uint32_t token() const noexcept { return static_cast<std::uint32_t>(instance); }
  Address encode() const;
  /// Errors: Error{Mismatch} where the bytes are not of this kind.
  static PeerAddress decode(const Address& bytes);
};

/// One rail here, and one of the peer's, by their places in PeerAddress::rails.
struct RailPair {
  std::size_t here = 0;
  std::size_t there = 0;
};
/// The rails of two ranks on different hosts: those of the same network. Fewer than two: none. An address that both
/// have (a bridge of containers, say) is none where they could meet.
std::vector<RailPair> rails_between(const PeerAddress& self, const PeerAddress& peer);

}  // namespace sinew::ucx
