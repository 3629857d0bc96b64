// Strangers and wrong secrets: what tcp must survive.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/transports/tcp/net.hpp>

#include "tcp_pair.hpp"

namespace sinew::test {
namespace {

using std::chrono::seconds;

TEST(TcpStrangers, WrongSecret_EndsOperationsAndSaysWhy) {
  auto a = tcp::make_transport(options_of(0, std::byte{1}));
  auto b = tcp::make_transport(options_of(1, std::byte{2}));
  const auto to_b = a->connect(b->address());
  Watched w;
  to_b->send({}, user(1), 0, w);
  ASSERT_TRUE(drive({a.get(), b.get()}, seconds(30), [&] { return w.done(); }));
  EXPECT_EQ(w.status.code(), Code::PeerLost);
  EXPECT_NE(w.status.message().find("does not know the job's secret"), std::string_view::npos) << w.status.message();
}

TEST(TcpStrangers, GarbageIsDropped_AndTheJobGoesOn) {
  Pair pair;
  std::vector<FileDescriptor> strangers;
  for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 100000u}) {
    strangers.push_back(raw_connection(*pair.a));
    const auto junk = pattern(bytes, 5);
    static_cast<void>(::send(strangers.back().get(), junk.data(), junk.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  pair.greet();
  const auto closed = [&](std::size_t i) { return is_closed(strangers[i]); };
  EXPECT_TRUE(pair.drive(seconds(4), [&] { return closed(3) && closed(4) && closed(5); }))
      << "64 bytes that are no hello";
  EXPECT_FALSE(closed(0)) << "a silent stranger has five seconds";
  EXPECT_TRUE(pair.drive(seconds(8), [&] { return closed(0) && closed(1) && closed(2); })) << "and no more";
  pair.greet();
}

/// It has the hello of the lower rank, whose connection is the pair's: not of the peer.
TEST(TcpStrangers, SilentOneAtThePeersAddress_LeavesThePeersOwnConnection) {
  Pair pair{.b = nullptr, .to_b = nullptr, .to_a = nullptr};
  const Listener stranger = listen_on(SocketAddress::parse("127.0.0.1:0"));
  pair.b = tcp::make_transport(options_of(1));
  tcp::PeerAddress elsewhere = tcp::PeerAddress::decode(pair.b->address());
  elsewhere.addresses = {{stranger.address, 8, "lo"}};
  pair.to_b = pair.a->connect(elsewhere.encode());
  std::vector<FileDescriptor> silent;
  const auto has_hello = [](const FileDescriptor& socket) {
    std::byte hello[Authentication::kHelloBytes];
    return ::recv(socket.get(), hello, sizeof hello, MSG_PEEK | MSG_DONTWAIT) == sizeof hello;
  };
  const auto has_both = [&] {
    FileDescriptor next(::accept(stranger.socket.get(), nullptr, nullptr));
    if (next) silent.push_back(std::move(next));
    return silent.size() == 2 && std::ranges::all_of(silent, has_hello);
  };
  EXPECT_TRUE(drive({pair.a.get()}, seconds(30), has_both));
  pair.to_a = pair.b->connect(pair.a->address());
  pair.greet();
}

TEST(TcpStrangers, FloodOfSilentConnections_DelaysButDoesNotEndTheJob) {
  auto a = tcp::make_transport(options_of(0));
  std::vector<FileDescriptor> flood;
  for (int i = 0; i < 150; ++i) flood.push_back(raw_connection(*a));
  auto b = tcp::make_transport(options_of(1));
  const auto to_a = b->connect(a->address());
  const auto to_b = a->connect(b->address());
  Watched s, r;
  to_a->send({}, user(1), 0, s);
  to_b->recv({}, user(1), r);
  EXPECT_TRUE(drive({a.get(), b.get()}, seconds(60), [&] { return s.done() && r.done(); }));
  EXPECT_TRUE(r.status.ok());
}

/// Another program has the port now. The control thread gives up although this rank computes and makes no progress.
TEST(TcpStrangers, ListenerThatClosesEveryConnection_IsGivenUp) {
  Watched w;
  const auto a = tcp::make_transport(options_of(0));
  const Listener closes = listen_on(SocketAddress::parse("127.0.0.1:0"));
  const auto to_b = a->connect(tcp::PeerAddress{1, 99, {}, {{closes.address, 8, "lo"}}}.encode());
  to_b->recv({}, user(1), w);
  int closed = 0;
  const auto end = Deadline::after(seconds(30));
  constexpr int kEnough = 2 * 10;  // the endpoint dials two connections, ten times each
  while (closed < kEnough && !end.passed()) {
    while (FileDescriptor(::accept(closes.socket.get(), nullptr, nullptr))) ++closed;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(w.done()) << "only progress() tells of it";
  EXPECT_TRUE(drive({a.get()}, seconds(30), [&] { return w.done(); }));
  EXPECT_NE(w.status.message().find("closes every connection"), std::string_view::npos) << w.status.message();
}

TEST(TcpStrangers, SlowOnesInAllPlaces_GiveWay_TheOldestFirst) {
  auto a = tcp::make_transport(options_of(0));
  std::vector<FileDescriptor> slow;
  for (std::size_t i = 0; i < 2 * UnauthenticatedLimits::kPlaces; ++i) {
    slow.push_back(raw_connection(*a));
    EXPECT_EQ(::send(slow.back().get(), "sinew", 5, MSG_NOSIGNAL), 5);  // half a hello
  }
  const auto start = Clock::now();
  const auto gone = [&] { return is_closed(slow[0]) && is_closed(slow[UnauthenticatedLimits::kPlaces - 1]); };
  EXPECT_TRUE(drive({a.get()}, seconds(60), gone));
  EXPECT_LT(Clock::now() - start, UnauthenticatedLimits::kAtMost) << "they had their whole time while others waited";
  EXPECT_FALSE(is_closed(slow.back())) << "nobody waits for its place";
}

TEST(TcpStrangers, ReplayedHandshake_IsRefused) {
  auto a = tcp::make_transport(options_of(0));
  const tcp::PeerAddress there = tcp::PeerAddress::decode(a->address());
  const AuthClaim claim{tcp::kService, 1, 0, 0, there.instance};
  Authentication peer = Authentication::connector(options_of(1).secret, claim);
  Bytes said(peer.to_send().begin(), peer.to_send().end());
  const auto talk = [&](std::span<const std::byte> bytes, std::span<std::byte> reply) {
    FileDescriptor socket = raw_connection(*a);
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    const auto has_come = [&] {
      return ::recv(socket.get(), reply.data(), reply.size(), MSG_PEEK | MSG_DONTWAIT) >= 64;
    };
    EXPECT_TRUE(drive({a.get()}, seconds(60), has_come));
    EXPECT_EQ(::recv(socket.get(), reply.data(), reply.size(), MSG_DONTWAIT), 64);
    return socket;
  };
  peer.sent(said.size());
  const FileDescriptor heard = talk(said, peer.room());
  peer.received(64);
  ASSERT_EQ(peer.state(), Authentication::State::Proven);
  said.insert(said.end(), peer.to_send().begin(), peer.to_send().end());
  Bytes reply(100);
  const FileDescriptor again = talk(said, reply);
  EXPECT_TRUE(drive({a.get()}, seconds(4), [&] { return is_closed(again); })) << "its number was used before";
  EXPECT_FALSE(is_closed(heard)) << "but the first has its time to send its proof";
}

/// Four Worlds with secrets of their own, two ranks of each in this process. One ends while the others connect.
TEST(TcpPort, IsOneForFourWorlds_OfWhichOneEnds) {
  struct Two {
    explicit Two(std::byte secret) {
      for (int r = 0; r < 2; ++r) ranks.push_back(tcp::make_transport(options_of(r, secret)));
    }
    Watched sent, received;  // outlive what completes them
    std::vector<std::unique_ptr<Transport>> ranks;
    std::unique_ptr<Endpoint> to_b, to_a;
  };
  std::vector<std::unique_ptr<Two>> worlds;
  for (int w = 0; w < 4; ++w) worlds.push_back(std::make_unique<Two>(std::byte(w + 1)));
  const std::uint16_t port = listener_of(*worlds[0]->ranks[0]).port();
  std::vector<Transport*> all;
  for (const auto& w : worlds) {
    for (const auto& t : w->ranks) EXPECT_EQ(listener_of(*t).port(), port);
    w->to_b = w->ranks[0]->connect(w->ranks[1]->address());
    w->to_a = w->ranks[1]->connect(w->ranks[0]->address());
    w->to_b->send({}, user(1), 0, w->sent);
    w->to_a->recv({}, user(1), w->received);
  }
  worlds.pop_back();  // before it has connected
  for (const auto& w : worlds) {
    for (const auto& t : w->ranks) all.push_back(t.get());
  }
  const auto done = [&] {
    return std::ranges::all_of(worlds, [](const auto& w) { return w->sent.done() && w->received.done(); });
  };
  EXPECT_TRUE(drive(all, seconds(30), done));
  for (const auto& w : worlds) EXPECT_TRUE(w->received.status.ok()) << w->received.status.message();
}

TEST(TcpStrangers, HelloForAnotherInstance_IsRefused) {
  auto a = tcp::make_transport(options_of(0));
  auto b = tcp::make_transport(options_of(1));
  tcp::PeerAddress stale = tcp::PeerAddress::decode(a->address());
  stale.instance ^= 1;
  const auto to_a = b->connect(stale.encode());
  Watched w;
  to_a->recv({}, user(1), w);
  ASSERT_TRUE(drive({a.get(), b.get()}, seconds(60), [&] { return w.done(); }));
  EXPECT_EQ(w.status.code(), Code::PeerLost);
}

}  // namespace
}  // namespace sinew::test
