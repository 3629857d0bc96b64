// Several rails between two ranks: here they are loopback addresses of different networks.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/net/stream_socket.hpp>
#include <sinew/transports/tcp/addresses/rail_path.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/replay_log.hpp>
#include <sinew/transports/tcp/tcp.hpp>

#include "support/log_guard.hpp"
#include "tcp_rail_options.hpp"
#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

using std::chrono::seconds;

Rail make_two(const Exchange& world) { return tcp::make_transport(rail_options(world.rank, 2)); }
Rail make_three_tight(const Exchange& world) {
  tcp::Options o = rail_options(world.rank, 3);
  o.eager_bytes = 600;
  o.eager_credit_bytes = 4096;
  return tcp::make_transport(o);
}
tcp::Options with_streams(int rank, int rails, int streams) {
  tcp::Options o = rail_options(rank, rails);
  o.config.tcp_streams = streams;
  return o;
}
Rail make_three_streams(const Exchange& world) { return tcp::make_transport(with_streams(world.rank, 1, 3)); }
INSTANTIATE_TEST_SUITE_P(tcp_rails, Conformance,
                         testing::Values(Subject{"two", make_two, run_threads},
                                         Subject{"three_little_credit", make_three_tight, run_threads},
                                         Subject{"three_streams", make_three_streams, run_threads},
                                         Subject{"two_processes", make_two, run_as_processes}),
                         subject_name);

struct RailsPair {
  /// Rank 1 asks for so many streams, rank 0 for one.
  explicit RailsPair(int rails, int streams = 1)
      : a(tcp::make_transport(with_streams(0, rails, 1))),
        b(tcp::make_transport(with_streams(1, rails, streams))),
        to_b(a->connect(b->address())),
        to_a(b->connect(a->address())) {}

  template <class Holds>
  bool drive(Duration limit, Holds holds) {
    const auto end = Deadline::after(limit);
    while (!holds() && !end.passed()) {
      a->progress();
      b->progress();
    }
    return holds();
  }

  std::unique_ptr<Transport> a, b;
  std::unique_ptr<Endpoint> to_b, to_a;
};

/// Both ends of the connections over this rail, in this process.
std::vector<int> sockets_of_rail(int rail) {
  std::vector<int> found;
  const std::string network = fmt::format("127.0.{}.", rail);
  for (int fd = 3; fd < 256; ++fd) {
    if (peer_address(fd).text().starts_with(network)) found.push_back(fd);
  }
  return found;
}

std::uint64_t bytes_received(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  return info.tcpi_bytes_received;
}

bool is_control(int fd) {
  int idle = 0;
  socklen_t length = sizeof idle;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &idle, &length) == 0 && idle == 0;
}

std::vector<int> control_sockets() {
  std::vector<int> found;
  for (const int rail : {1, 2}) {
    std::ranges::copy_if(sockets_of_rail(rail), std::back_inserter(found), is_control);
  }
  return found;
}

/// A message each way at once; between `cut` is called when the first bytes have come.
template <class Cut>
void exchange(RailsPair& pair, std::size_t bytes, unsigned seed, Cut cut) {
  const auto ab = pattern(bytes, seed), ba = pattern(bytes, seed + 1);
  std::vector<std::byte> at_a(bytes), at_b(bytes);
  const std::byte untouched = ab[0] ^ std::byte{0xff};
  at_b[0] = untouched;
  Watched s[2], r[2];
  pair.to_b->recv({view(at_a)}, user(1), r[0]);
  pair.to_a->recv({view(at_b)}, user(1), r[1]);
  pair.to_b->send(view(ab), user(1), 0, s[0]);
  pair.to_a->send(view(ba), user(1), 0, s[1]);
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return at_b[0] != untouched; }));
  cut();
  ASSERT_TRUE(pair.drive(seconds(60), [&] { return s[0].done() && s[1].done() && r[0].done() && r[1].done(); }));
  for (const Watched* w : {&s[0], &s[1], &r[0], &r[1]}) EXPECT_TRUE(w->status.ok()) << w->status.message();
  EXPECT_TRUE(at_a == ba);
  EXPECT_TRUE(at_b == ab);
}

TEST(TcpRails, EveryRailHasAConnection_AndCarriesData) {
  RailsPair pair(3);
  exchange(pair, 32 << 20, 1, [] {});
  for (int rail = 1; rail <= 3; ++rail) {
    const auto sockets = sockets_of_rail(rail);
    EXPECT_EQ(sockets.size(), rail == 1 ? 4u : 2u) << "control is on the first";
    std::uint64_t bytes = 0;
    for (const int fd : sockets) bytes += bytes_received(fd);
    EXPECT_GT(bytes, 4u << 20) << "rail " << rail;
  }
}

/// Data connections over rail 1 that this process has, both ends, and the least that one of them has received.
std::pair<std::size_t, std::uint64_t> streams_received() {
  std::size_t count = 0;
  std::uint64_t least = ~std::uint64_t{0};
  for (const int fd : sockets_of_rail(1)) {
    if (is_control(fd)) continue;
    ++count;
    least = std::min(least, bytes_received(fd));
  }
  return {count, least};
}

TEST(TcpStreams, AreConnectionsOfOneNetwork_AsManyAsOneSideWants_AndAllCarryData) {
  RailsPair pair(1, 4);
  exchange(pair, 32 << 20, 1, [] {});
  const auto [count, least] = streams_received();
  EXPECT_EQ(count, 8U);
  EXPECT_GT(least, 2U << 20);
}

/// Each warning is of one connection, and the others go on.
TEST(TcpStreams, OneCutInTheMiddle_LosesNothing) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.1.");
  RailsPair pair(1, 3);
  exchange(pair, 64 << 20, 3, [] {
    for (const int fd : sockets_of_rail(1)) {
      if (is_control(fd)) continue;
      ::shutdown(fd, SHUT_RDWR);
      break;
    }
  });
  exchange(pair, 1 << 20, 5, [] {});
  EXPECT_EQ(lost.lines().size(), 2U) << "each side says it";
  EXPECT_EQ(streams_received().first, 4U);
}

class TcpRailCut : public testing::TestWithParam<int> {};

/// Rail 1 has the control connection, too.
TEST_P(TcpRailCut, InTheMiddle_LosesNothingAndIsLoggedOnce) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.");
  RailsPair pair(2);
  exchange(pair, 64 << 20, 3, [] {
    for (const int fd : sockets_of_rail(GetParam())) ::shutdown(fd, SHUT_RDWR);
  });
  exchange(pair, 1 << 20, 5, [] {});
  EXPECT_TRUE(sockets_of_rail(GetParam()).empty()) << "control is at the other rail";
  const auto lines = lost.lines();
  ASSERT_EQ(lines.size(), 2u) << "each side says it";
  for (int rank = 0; rank < 2; ++rank) {
    const std::string said = fmt::format("from 127.0.{0}.{1} (wire{0}) to 127.0.{0}.{2} (wire{0}) of rank {3} is lost",
                                         GetParam(), rank + 1, 2 - rank, 1 - rank);
    EXPECT_EQ(std::ranges::count_if(lines, [&](const auto& l) { return l.find(said) != std::string::npos; }), 1)
        << said;
  }
}
INSTANTIATE_TEST_SUITE_P(EitherRail, TcpRailCut, testing::Values(1, 2));

/// Small messages, which are written from copies, go on in order where the control connection is cut again and again.
TEST(TcpRails, ControlConnectionCut_LosesNoSmallMessageAndNoOrder) {
  RailsPair pair(2);
  exchange(pair, 1 << 20, 1, [] {});
  for (int cut = 0; cut < 5; ++cut) {
    constexpr std::size_t kMessages = 12;
    std::vector<std::vector<std::byte>> out, in(kMessages, std::vector<std::byte>(12000));
    for (unsigned i = 0; i < kMessages; ++i) out.push_back(pattern(12000, i));
    std::vector<Watched> s(kMessages), r(kMessages);
    for (std::size_t i = 0; i < kMessages; ++i) pair.to_a->recv({view(in[i])}, user(4), r[i]);
    for (std::size_t i = 0; i < kMessages; ++i) {
      pair.to_b->send(view(out[i]), user(4), 0, s[i]);
      if (i != kMessages / 2) continue;
      for (const int fd : control_sockets()) ::shutdown(fd, SHUT_RDWR);
    }
    const auto done = [](const Watched& w) { return w.done(); };
    ASSERT_TRUE(pair.drive(seconds(30), [&] { return std::ranges::all_of(s, done) && std::ranges::all_of(r, done); }));
    EXPECT_TRUE(in == out);
  }
}

/// The last rail is the peer.
TEST(TcpRails, AllRailsCut_IsPeerLost) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.");
  RailsPair pair(2);
  exchange(pair, 1 << 20, 1, [] {});
  Watched r;
  pair.to_b->recv({}, user(9), r);
  for (const int rail : {1, 2}) {
    for (const int fd : sockets_of_rail(rail)) {
      if (!is_control(fd)) ::shutdown(fd, SHUT_RDWR);
    }
  }
  ASSERT_TRUE(pair.drive(seconds(20), [&] { return r.done(); }));
  EXPECT_EQ(r.status.code(), Code::PeerLost);
  EXPECT_EQ(r.status.rank(), 1);
}

TEST(TcpRails, PeerThatCloses_IsNoRailLost) {
  RailsPair pair(2);
  exchange(pair, 1 << 20, 1, [] {});
  Watched r, quiet;
  pair.to_b->recv({}, user(9), r);
  pair.to_a->close(quiet);
  ASSERT_TRUE(pair.drive(seconds(20), [&] { return r.done() && quiet.done(); }));
  EXPECT_EQ(r.status.code(), Code::PeerLost);
}

/// Cancelled with frames on every rail, one of which then goes: the receive ends, and nobody reads the buffer.
TEST(TcpRails, CancelledSend_EndsTheReceive_AlsoWhereARailIsLost) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.");
  RailsPair pair(2);
  exchange(pair, 1 << 20, 1, [] {});
  auto large = std::make_unique<std::vector<std::byte>>(64 << 20);
  std::vector<std::byte> in(64 << 20);
  Watched s, r;
  pair.to_a->recv({view(in)}, user(2), r);
  pair.to_b->send(view(*large), user(2), 0, s);
  in[0] = std::byte{0x5a};
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return in[0] != std::byte{0x5a}; }));
  EXPECT_TRUE(pair.to_b->cancel(s));
  large.reset();
  for (const int fd : sockets_of_rail(2)) ::shutdown(fd, SHUT_RDWR);
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return r.done() && s.done(); }));
  EXPECT_EQ(s.status.code(), Code::Cancelled);
  EXPECT_EQ(r.status.code(), Code::Cancelled);
  exchange(pair, 4 << 20, 7, [] {});
}

/// A reduction takes each element once, whichever rail brings it, in the middle of which element ever one ends.
TEST(TcpRails, ReducingReceive_TakesEachElementOnce_WhereARailIsLost) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.");
  RailsPair pair(2);
  constexpr std::size_t kCount = 12 << 20;
  std::vector<std::uint32_t> out(kCount), sum(kCount, 5);
  for (std::size_t i = 0; i < kCount; ++i) out[i] = static_cast<std::uint32_t>(i * 2654435761u);
  const Reducer add = reducer_for(ReduceOp::Sum, DType::U32);
  Watched s, r;
  const auto bytes_of = [](std::vector<std::uint32_t>& v) {
    return Buffer{reinterpret_cast<std::byte*>(v.data()), v.size() * 4};
  };
  Sink sink{bytes_of(sum)};
  sink.reduce = &add;
  pair.to_a->recv(sink, user(2), r);
  pair.to_b->send({bytes_of(out).data, kCount * 4}, user(2), 0, s);
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return sum[1] != 5; }));
  for (const int fd : sockets_of_rail(2)) ::shutdown(fd, SHUT_RDWR);
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return r.done() && s.done(); }));
  EXPECT_TRUE(r.status.ok());
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(sum[i], out[i] + 5) << i;
}

tcp::PeerAddress somebody(int rank, const std::string& host, std::vector<tcp::InterfaceAddress> addresses) {
  return {rank, 77, host, std::move(addresses)};
}
tcp::InterfaceAddress at(const std::string& address, int prefix, const std::string& interface) {
  return {SocketAddress::parse(address + ":5"), static_cast<std::uint8_t>(prefix), interface};
}

TEST(TcpRailPaths, AreTheInterfacesOnOneNetwork_AlikeOnBothSides) {
  const auto one =
      somebody(3, "h1", {at("10.0.1.1", 24, "eth0"), at("10.0.2.1", 24, "eth1"), at("127.0.0.1", 8, "lo")});
  const auto two = somebody(1, "h2",
                            {at("172.17.0.1", 16, "docker0"), at("10.0.2.2", 24, "ib0"), at("10.0.1.2", 24, "ib1"),
                             at("127.0.0.1", 8, "lo")});
  const auto here = tcp::rails_between(one, two), there = tcp::rails_between(two, one);
  ASSERT_EQ(here.size(), 2u);
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(here[0].here.text(), "10.0.2.1 (eth1)") << "in the order of the lower rank";
  EXPECT_EQ(here[0].there.text(), "10.0.2.2 (ib0)");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(here[i].here.text(), there[i].there.text());
    EXPECT_EQ(here[i].there.text(), there[i].here.text());
  }
}

TEST(TcpRailPaths, AreNone_OnOneHostOrOverOneInterface) {
  const auto a = somebody(0, "h1", {at("10.0.1.1", 24, "eth0"), at("10.0.2.1", 24, "eth1")});
  const auto b = somebody(1, "h1", {at("10.0.1.2", 24, "eth0"), at("10.0.2.2", 24, "eth1")});
  EXPECT_TRUE(tcp::rails_between(a, b).empty()) << "one host";
  const auto aliases = somebody(2, "h2", {at("10.0.1.3", 24, "eth0"), at("10.0.2.3", 24, "eth0")});
  EXPECT_TRUE(tcp::rails_between(a, aliases).empty()) << "two addresses of one interface";
  const auto bridge = somebody(3, "h3", {at("10.0.1.4", 24, "eth0"), at("172.17.0.1", 16, "docker0")});
  const auto same = somebody(4, "h4", {at("10.0.1.5", 24, "eth0"), at("172.17.0.1", 16, "docker0")});
  EXPECT_TRUE(tcp::rails_between(bridge, same).empty()) << "an address that both have";
  const auto wider = somebody(5, "h5", {at("10.0.1.6", 24, "eth0"), at("10.0.2.6", 16, "eth1")});
  EXPECT_TRUE(tcp::rails_between(a, wider).empty()) << "networks of different width";
}

TEST(TcpRailPaths, AreRepeatedForStreams_AsTheRankThatWantsMoreSays) {
  auto one = somebody(0, "h1", {at("10.0.1.1", 24, "eth0"), at("10.0.2.1", 24, "eth1")});
  auto two = somebody(1, "h2", {at("10.0.1.2", 24, "eth0"), at("10.0.2.2", 24, "eth1")});
  const auto interfaces = [&] {
    std::string all;
    const auto here = tcp::rails_between(one, two), there = tcp::rails_between(two, one);
    EXPECT_EQ(here.size(), there.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(here[i].here.text(), there[i].there.text());
      all += here[i].here.interface.back();
    }
    return all;
  };
  EXPECT_EQ(interfaces(), "01");
  two.streams = 3;
  EXPECT_EQ(interfaces(), "000111");
  one.streams = 8;
  EXPECT_EQ(interfaces(), "00001111") << "no more than the most rails, and as many on each network";
  one.addresses.pop_back();
  EXPECT_EQ(interfaces(), "00000000");
}

TEST(TcpRailPaths, LeadOverRouters_WhereStreamsAreWantedAndBothHaveOneAddress) {
  auto one = somebody(0, "h1", {at("10.0.1.1", 24, "eth0"), at("127.0.0.1", 8, "lo"), at("[fd00::1]", 64, "eth0")});
  const auto two = somebody(1, "h2", {at("10.9.1.2", 24, "eth5"), at("127.0.0.1", 8, "lo")});
  EXPECT_TRUE(tcp::rails_between(one, two).empty()) << "one connection needs no rail";
  one.streams = 2;
  const auto rails = tcp::rails_between(one, two);
  ASSERT_EQ(rails.size(), 2U);
  EXPECT_EQ(rails[1].here.text(), "10.0.1.1 (eth0)");
  EXPECT_EQ(rails[1].there.text(), "10.9.1.2 (eth5)");
  one.addresses.push_back(at("10.0.7.1", 24, "eth1"));
  EXPECT_TRUE(tcp::rails_between(one, two).empty()) << "two addresses: routing knows which one reaches the peer";
}

TEST(TcpReplayLog, GoesOnWhereTheReaderIs) {
  tcp::ReplayLog log;
  const auto data = pattern(100, 1);
  log.append(data.data(), 100);
  log.sent(60);
  EXPECT_TRUE(log.heard(20));
  EXPECT_EQ(log.unsent().size(), 40u);
  EXPECT_FALSE(log.resume(61)) << "it was not sent";
  EXPECT_FALSE(log.resume(19)) << "it is not kept";
  EXPECT_TRUE(log.heard(10)) << "an old word, said again";
  ASSERT_TRUE(log.resume(30));
  ASSERT_EQ(log.unsent().size(), 70u);
  EXPECT_EQ(log.unsent()[0], data[30]);
}

}  // namespace
}  // namespace sinew::test
