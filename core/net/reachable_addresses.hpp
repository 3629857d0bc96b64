#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {

/// Where other hosts may find what listens at `port`: at the addresses of the interfaces that SINEW_INTERFACE names,
/// or, where none of them is up here, at all but loopback. The host of a launcher need not have those of its ranks; a
/// rank whose host has none is told so by tcp, and not by peers that wait for it in vain.
SINEW_API std::vector<SocketAddress> reachable_addresses(const std::string& names, std::uint16_t port);

}  // namespace sinew
