// What a peer or the network does that no rank of this library does when asked: the test plays it.
#include "tcp_played_peer.hpp"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "support/log_guard.hpp"
#include "tcp_rail_options.hpp"

namespace sinew::test {
namespace {

using std::chrono::seconds;
using tcp::Consent;
using tcp::FrameKind;
using tcp::kControl;

/// Nothing that is sent to this socket comes, or is answered.
void go_dark(const Socket& socket) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &length), 0);
  return value;
}

/// The other ends, in this process, of connections to a listener.
std::vector<int> connections_to(const SocketAddress& listener) {
  std::vector<int> found;
  for (int fd = 3; fd < 256; ++fd) {
    if (peer_address(fd).text() == listener.text()) found.push_back(fd);
  }
  return found;
}

/// By the second rail it comes to the peer, before anybody gives up.
TEST(TcpDarkPath, OfAConnectionBeforeItsProof_GivesWayToTheNextPath) {
  const auto a = tcp::make_transport(rail_options(0, 2));
  PlayedPeer b(rail_options(1, 2), *a);
  const auto to_b = a->connect(b.address());
  std::vector<Socket> dark;
  for (int i = 0; i < 2; ++i) go_dark(dark.emplace_back(b.accept(0)));
  Socket control = b.accept_control(1);
  const Consent yes = Consent::Accepted;
  EXPECT_EQ(control.send(std::as_bytes(std::span(&yes, 1))), 1);
  const auto is_at_work = [](int fd) { return option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 0; };
  const auto one_is = [&] { return std::ranges::count_if(connections_to(b.listener(1)), is_at_work) == 1; };
  EXPECT_TRUE(drive({a.get()}, seconds(30), one_is)) << "a rank that computes for long takes nothing";
}

/// The lower rank's is the one, until the peer has lost it: the consent came no further than the dark path.
TEST(TcpDarkPath, OfAConnectionThatThePeerHasTaken_GivesWayToWhatThePeerMakesThen) {
  const auto a = tcp::make_transport(rail_options(0, 2));
  PlayedPeer b(rail_options(1, 2), *a);
  const auto to_b = a->connect(b.address());
  const Socket control = b.accept_control(0);
  EXPECT_EQ(b.dial({kControl, 0}).consent, Consent::UseMine);
  static_cast<void>(b.dial_control(1));
}

/// What went into a connection that the other side never had is not taken as read.
TEST(TcpLostConsent, ControlGoesOnWhereThePeerIs_OverASecondFirstConnection) {
  Watched s;
  const auto b = tcp::make_transport(rail_options(1, 2));
  PlayedPeer a(rail_options(0, 2), *b);
  const auto to_a = b->connect(a.address());
  const auto data = pattern(8, 1);
  to_a->send(view(data), user(1), 0, s);
  const auto takes = [&](Socket& control) {
    EXPECT_EQ(a.hear(control).kind, FrameKind::Eager);
    std::vector<std::byte> in(8);
    a.hear(control, in.data(), in.size());
    EXPECT_EQ(in, data);
  };
  {
    Socket lost = a.dial_control(0);
    takes(lost);
  }
  Socket control = a.dial_control(0);
  takes(control);
}

/// Also of one that came before this rank had an endpoint.
TEST(TcpLostConsent, ConnectionThatWaitedForTheEndpoint_KeepsItsEpoch) {
  const auto b = tcp::make_transport(rail_options(1, 2));
  PlayedPeer a(rail_options(0, 2), *b);
  auto early = a.dial({kControl, 3});
  EXPECT_EQ(early.consent, Consent::Accepted);
  const auto to_a = b->connect(a.address());
  EXPECT_EQ(a.hear(early.socket).kind, FrameKind::Resume);
  EXPECT_EQ(a.dial({kControl, 3}).consent, Consent::UseMine);
  static_cast<void>(a.dial_control(4));
}

/// Nobody could say where a frame goes on: the rail is given up, and another brings it.
TEST(TcpLostConsent, RailThatHasWritten_TakesNoSecondConnection) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.");
  Watched s;
  const auto b = tcp::make_transport(rail_options(1, 2));
  PlayedPeer a(rail_options(0, 2), *b);
  const auto to_a = b->connect(a.address());
  Socket control = a.dial_control(0);
  const auto data = pattern(32 << 10, 1);
  to_a->send(view(data), user(1), 0, s);
  const std::uint32_t number = a.hear(control).id;
  {
    auto rail = a.dial({1, 0});
    EXPECT_EQ(rail.consent, Consent::Accepted);
    a.say(control, {.kind = FrameKind::Clear, .id = number, .note = 7, .bytes = 1});
    EXPECT_EQ(a.hear(rail.socket).kind, FrameKind::Data);
  }
  EXPECT_EQ(a.dial({1, 0}).consent, Consent::UseMine);
  EXPECT_EQ(a.hear(control).kind, FrameKind::RailLost);
  auto other = a.dial({2, 0});
  EXPECT_EQ(other.consent, Consent::Accepted);
  a.say(control, {.kind = FrameKind::RailLost, .id = 1});
  const tcp::FrameHeader again = a.hear(other.socket);
  EXPECT_EQ(again.kind, FrameKind::Data);
  EXPECT_EQ(again.bytes, data.size());
}

/// Credit for no message: all are announced.
tcp::Options without_credit(tcp::Options o) {
  o.eager_credit_bytes = 0;
  return o;
}

/// The number of an empty message that the other side has been allowed to send.
std::uint32_t clear_empty(PlayedPeer& peer, Socket& control, Endpoint& from, Watched& send) {
  from.send({}, user(1), 0, send);
  const tcp::FrameHeader request = peer.hear(control);
  EXPECT_EQ(request.kind, FrameKind::Request);
  constexpr std::uint32_t kReceiver = 7;
  peer.say(control, {.kind = FrameKind::Clear, .id = request.id, .note = kReceiver, .bytes = 1});
  return kReceiver;
}

TEST(TcpCancelledEmpty, BeforeItsFrame_EndsTheReceive) {
  Watched s, r;
  const auto b = tcp::make_transport(without_credit(options_of(1)));
  PlayedPeer a(options_of(0), *b);
  const auto to_a = b->connect(a.address());
  auto [consent, control] = a.dial({kControl, 0});
  EXPECT_EQ(consent, Consent::Accepted);
  to_a->recv({}, user(9), r);
  const std::uint32_t receiver = clear_empty(a, control, *to_a, s);
  a.say(control, {.kind = FrameKind::Request, .id = 1, .tag = user(9).bits});
  EXPECT_EQ(a.hear(control).kind, FrameKind::Clear) << "what came before has been read";
  EXPECT_TRUE(to_a->cancel(s)) << "there is no connection for its frame";
  const tcp::FrameHeader abort = a.hear(control);
  EXPECT_EQ(abort.kind, FrameKind::Abort);
  EXPECT_EQ(abort.id, receiver);
  EXPECT_EQ(abort.bytes, 0u);
  EXPECT_EQ(s.status.code(), Code::Cancelled);
}

TEST(TcpCancelledEmpty, LostWithItsRail_EndsTheReceive) {
  ExpectLog lost(log::Level::Warning, "tcp: the rail from 127.0.");
  Watched s;
  const auto b = tcp::make_transport(without_credit(rail_options(1, 2)));
  PlayedPeer a(rail_options(0, 2), *b);
  const auto to_a = b->connect(a.address());
  Socket control = a.dial_control(0);
  std::uint32_t receiver = 0;
  {
    auto rail = a.dial({1, 0});
    EXPECT_EQ(rail.consent, Consent::Accepted);
    receiver = clear_empty(a, control, *to_a, s);
    EXPECT_EQ(a.hear(rail.socket).kind, FrameKind::Data);
    EXPECT_FALSE(to_a->cancel(s)) << "its frame has left";
  }
  EXPECT_EQ(a.hear(control).kind, FrameKind::RailLost);
  a.say(control, {.kind = FrameKind::RailLost, .id = 1});
  const tcp::FrameHeader abort = a.hear(control);
  EXPECT_EQ(abort.kind, FrameKind::Abort);
  EXPECT_EQ(abort.id, receiver);
}

}  // namespace
}  // namespace sinew::test
