#include <sinew/core/net/reachable_addresses.hpp>

namespace sinew {

std::vector<SocketAddress> reachable_addresses(const std::string& names, std::uint16_t port) {
  std::vector<SocketAddress> named = SocketAddress::own(names, port);
  return named.empty() ? SocketAddress::own("", port) : named;
}

}  // namespace sinew
