#pragma once

#include <fmt/format.h>

#include <sinew/transports/tcp/tcp.hpp>

namespace sinew::test {

/// Rank r has 127.0.RAIL.(r + 1)/24 at interface "wireRAIL".
inline tcp::Options rail_options(int rank, int rails) {
  tcp::Options o;
  o.rank = rank;
  o.secret = Bytes(32, std::byte{7});
  o.host_id = fmt::format("host {}", rank);
  for (int i = 1; i <= rails; ++i) {
    o.addresses.push_back(
        {SocketAddress::parse(fmt::format("127.0.{}.{}:0", i, rank + 1)), 24, fmt::format("wire{}", i)});
  }
  return o;
}

}  // namespace sinew::test
