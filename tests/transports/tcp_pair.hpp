#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/net/stream_socket.hpp>
#include <sinew/transports/tcp/addresses/peer_address.hpp>
#include <sinew/transports/tcp/tcp.hpp>

#include "transports/conformance/rank.hpp"

namespace sinew::test {

inline tcp::Options options_of(int rank, std::byte secret = std::byte{7}) {
  tcp::Options o;
  o.rank = rank;
  o.secret = Bytes(32, secret);
  return o;
}

/// Progresses all of them until `holds` or the time is up; returns holds().
template <class Holds>
bool drive(std::vector<Transport*> all, Duration limit, Holds holds) {
  const auto end = Deadline::after(limit);
  while (!holds() && !end.passed()) {
    for (Transport* t : all) t->progress();
  }
  return holds();
}

inline SocketAddress listener_of(const Transport& t) {
  return tcp::PeerAddress::decode(t.address()).addresses.back().address;
}

inline FileDescriptor raw_connection(const Transport& t) {
  auto [socket, error] = try_connect({listener_of(t)}, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(error, 0);
  return std::move(socket);
}

/// true once the other end has closed.
inline bool is_closed(const FileDescriptor& socket) {
  std::byte b[256];
  const ssize_t n = ::recv(socket.get(), b, sizeof b, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

struct Pair {
  std::unique_ptr<Transport> a = tcp::make_transport(options_of(0));
  std::unique_ptr<Transport> b = tcp::make_transport(options_of(1));
  std::unique_ptr<Endpoint> to_b = a->connect(b->address());
  std::unique_ptr<Endpoint> to_a = b->connect(a->address());

  bool drive(Duration limit, const std::function<bool()>& holds) {
    return test::drive({a.get(), b.get()}, limit, holds);
  }
  /// One message each way, so that both connections work in both directions.
  void greet() {
    Watched s[2], r[2];
    std::uint64_t out = 3, in[2]{};
    to_b->send({reinterpret_cast<const std::byte*>(&out), 8}, user(1), 0, s[0]);
    to_a->send({reinterpret_cast<const std::byte*>(&out), 8}, user(1), 0, s[1]);
    to_b->recv({{reinterpret_cast<std::byte*>(&in[0]), 8}}, user(1), r[0]);
    to_a->recv({{reinterpret_cast<std::byte*>(&in[1]), 8}}, user(1), r[1]);
    ASSERT_TRUE(
        drive(std::chrono::seconds(30), [&] { return s[0].done() && s[1].done() && r[0].done() && r[1].done(); }));
    EXPECT_TRUE(r[0].status.ok() && r[1].status.ok() && in[0] == 3 && in[1] == 3);
  }
};

}  // namespace sinew::test
