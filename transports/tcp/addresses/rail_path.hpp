#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/transports/tcp/addresses/peer_address.hpp>

namespace sinew::tcp {

/// The most rails that a pair of ranks uses.
inline constexpr std::size_t kMostRails = 8;

/// One interface here, one of the peer's, on one network.
struct RailPath {
  InterfaceAddress here;
  InterfaceAddress there;
};

/// The rails of a pair, in an order that both sides find. Fewer than two: one rail, by what routing reaches. An address
/// that both sides have (a bridge of containers, say) is none where they could meet.
/// Each pair of interfaces has as many rails in a row as the rank with more PeerAddress::streams asks for. Hosts
/// without a common network have such rails only if both have one address of a family. Otherwise routing alone knows
/// which two reach each other.
SINEW_API std::vector<RailPath> rails_between(const PeerAddress& self, const PeerAddress& peer);

}  // namespace sinew::tcp
