// Dead and half-dead peers: what tcp must survive.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/transports/tcp/addresses/peer_address.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/tcp.hpp>

#include "tcp_pair.hpp"

namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TcpPeerLost, NobodyListens_NamesRankAndAddress) {
  auto a = tcp::make_transport(options_of(0));
  const SocketAddress closed = listen_on(SocketAddress::parse("127.0.0.1:0")).address;
  const std::string where = closed.text();
  const auto to_b = a->connect(tcp::PeerAddress{1, 99, {}, {{closed, 8, "lo"}}}.encode());
  Watched s, r;
  const auto data = pattern(1 << 20, 1);
  to_b->send(view(data), user(1), 0, s);
  to_b->recv({}, user(1), r);
  ASSERT_TRUE(drive({a.get()}, seconds(30), [&] { return s.done() && r.done(); }));
  EXPECT_EQ(s.status.code(), Code::PeerLost);
  EXPECT_EQ(r.status.rank(), 1);
  EXPECT_NE(r.status.message().find(where), std::string_view::npos) << r.status.message();
}

/// The process still listens, because rank 0 uses the same port.
TEST(TcpPeerLost, WorldThatHasEnded_NamesRankAndAddress) {
  auto a = tcp::make_transport(options_of(0));
  auto b = tcp::make_transport(options_of(1));
  const Address gone = b->address();
  b.reset();
  const auto to_b = a->connect(gone);
  Watched r;
  to_b->recv({}, user(1), r);
  ASSERT_TRUE(drive({a.get()}, seconds(30), [&] { return r.done(); }));
  EXPECT_EQ(r.status.code(), Code::PeerLost);
  EXPECT_EQ(r.status.rank(), 1);
  const std::string why(r.status.message());
  EXPECT_NE(why.find("127.0.0.1"), std::string::npos) << why;
  EXPECT_NE(why.find("or this World has ended there"), std::string::npos) << why;
}

/// The peer's descriptors, found by what they are connected to: a test's way to hurt it.
std::vector<int> sockets_of_this_process() {
  std::vector<int> fds;
  for (int fd = 3; fd < 256; ++fd) {
    if (peer_address(fd).text() != "?") fds.push_back(fd);
  }
  return fds;
}

class TcpHalfClosed : public testing::TestWithParam<std::size_t> {};

/// A peer that closes its writing side of one connection, and does nothing more.
TEST_P(TcpHalfClosed, IsLostWithinSecondsWithItsAddress) {
  Pair pair;
  pair.greet();
  Watched r;
  std::byte byte{};
  pair.to_b->recv({{&byte, 1}}, user(9), r);
  std::vector<int> fds;
  const auto are_all = [&] { return (fds = sockets_of_this_process()).size() == 4; };
  ASSERT_TRUE(pair.drive(seconds(20), are_all)) << "two connections, both ends here; others are being closed";
  ::shutdown(fds[GetParam()], SHUT_WR);
  Watched other;
  pair.to_a->recv({{&byte, 1}}, user(9), other);
  ASSERT_TRUE(pair.drive(seconds(20), [&] { return r.done() && other.done(); }));
  for (const Watched* w : {&r, &other}) {
    EXPECT_EQ(w->status.code(), Code::PeerLost);
    EXPECT_NE(w->status.message().find("127.0.0.1:"), std::string_view::npos) << w->status.message();
  }
}
INSTANTIATE_TEST_SUITE_P(AnySocket, TcpHalfClosed, testing::Values(0u, 1u, 2u, 3u));

/// Reads an address from a pipe. The test fails if none comes.
Address read_address(int pipe_end) {
  Address address(4096);
  const ssize_t n = ::read(pipe_end, address.data(), address.size());
  EXPECT_GT(n, 0);
  address.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return address;
}

/// A process is killed in the middle of a large message.
TEST(TcpPeerLost, KilledPeer_EndsEverythingAndLaterOperationsToo) {
  int to_parent[2], to_child[2];
  ASSERT_EQ(::pipe(to_parent), 0);
  ASSERT_EQ(::pipe(to_child), 0);
  // The fork comes before this process has a control thread. Under the thread sanitizer, the child of a process with
  // several threads cannot start threads.
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(to_child[1]);
    const auto b = tcp::make_transport(options_of(1));
    const Address mine = b->address();
    static_cast<void>(::write(to_parent[1], mine.data(), mine.size()));
    const auto to_a = b->connect(read_address(to_child[0]));
    std::vector<std::byte> large(64 << 20);
    Watched s, r;
    to_a->send(view(large), user(1), 0, s);
    to_a->recv({view(large)}, user(2), r);
    for (;;) b->progress();
  }
  ::close(to_parent[1]);  // so the read ends if the child dies
  const auto a = tcp::make_transport(options_of(0));
  const Address mine = a->address();
  ASSERT_EQ(::write(to_child[1], mine.data(), mine.size()), static_cast<ssize_t>(mine.size()));
  const Address child_address = read_address(to_parent[0]);
  const auto to_b = a->connect(child_address);
  std::vector<std::byte> in(64 << 20), out(64 << 20);
  Watched first, second, idle, late_send, late_receive;
  to_b->recv({view(in)}, user(1), first);
  to_b->send(view(out), user(2), 0, second);
  to_b->recv({}, user(3), idle);
  // The first bytes show that the message is in flight.
  in[0] = std::byte{0x5a};
  ASSERT_TRUE(drive({a.get()}, seconds(30), [&] { return in[0] != std::byte{0x5a}; }));
  ::kill(child, SIGKILL);
  ASSERT_TRUE(drive({a.get()}, seconds(30), [&] { return first.done() && second.done() && idle.done(); }));
  to_b->send({}, user(4), 0, late_send);
  to_b->recv({}, user(4), late_receive);
  ASSERT_TRUE(drive({a.get()}, seconds(5), [&] { return late_send.done() && late_receive.done(); }));
  for (const Watched* w : {&idle, &late_send, &late_receive}) {
    EXPECT_EQ(w->status.code(), Code::PeerLost);
    EXPECT_EQ(w->status.rank(), 1);
  }
  for (const Watched* w : {&first, &second}) EXPECT_TRUE(w->status.ok() || w->status.code() == Code::PeerLost);
  EXPECT_FALSE(a->active());
  ::waitpid(child, nullptr, 0);
  ::close(to_parent[0]);
  ::close(to_child[0]);
  ::close(to_child[1]);
}

/// Under way to a peer that does not read: cancel lets go of the buffer at once.
TEST(TcpCancel, OfASendUnderWayToAStoppedPeer_LetsGoOfTheBuffer) {
  Pair pair;
  pair.greet();
  auto large = std::make_unique<std::vector<std::byte>>(64 << 20);
  std::vector<std::byte> in(64 << 20);
  Watched s, r;
  pair.to_a->recv({view(in)}, user(2), r);
  pair.to_b->send(view(*large), user(2), 0, s);
  in[0] = std::byte{0x5a};
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return in[0] != std::byte{0x5a}; }));
  EXPECT_TRUE(pair.to_b->cancel(s)) << "64 MiB do not fit the sockets";
  large.reset();
  pair.a->progress();  // the peer stands still
  EXPECT_EQ(s.status.code(), Code::Cancelled);
  EXPECT_FALSE(r.done());
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return r.done(); }));
  EXPECT_EQ(r.status.code(), Code::Cancelled);
  pair.greet();
}

/// The other way round: a receive whose sender has stopped in the middle.
TEST(TcpCancel, OfAReceiveUnderWay_LetsGoOfTheBuffer) {
  Pair pair;
  pair.greet();
  std::vector<std::byte> out(64 << 20);
  auto in = std::make_unique<std::vector<std::byte>>(64 << 20);
  Watched s, r;
  pair.to_a->recv({view(*in)}, user(2), r);
  pair.to_b->send(view(out), user(2), 0, s);
  (*in)[0] = std::byte{0x5a};
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return (*in)[0] != std::byte{0x5a}; }));
  EXPECT_TRUE(pair.to_a->cancel(r));
  in.reset();
  ASSERT_TRUE(pair.drive(seconds(30), [&] { return r.done() && s.done(); }));
  EXPECT_EQ(r.status.code(), Code::Cancelled);
  EXPECT_TRUE(s.status.ok());
  pair.greet();
}

TEST(TcpSetUp, PortRangeUsedUp_IsAClearError) {
  const Listener taken = listen_everywhere(0, std::nullopt);
  tcp::Options o = options_of(0);
  o.config.ports = {taken.address.port(), taken.address.port()};
  try {
    static_cast<void>(tcp::make_transport(o));
    FAIL() << "listened on a port that is taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    const std::string port = std::to_string(taken.address.port());
    EXPECT_NE(std::string(e.what()).find("SINEW_PORTS=" + port + "-" + port), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("in use"), std::string::npos) << e.what();
  }
}

TEST(TcpSetUp, PortRange_IsKept) {
  tcp::Options o = options_of(0);
  const std::uint16_t free_port = listen_everywhere(0, std::nullopt).address.port();
  o.config.ports = {free_port, free_port};
  EXPECT_EQ(listener_of(*tcp::make_transport(o)).port(), free_port);
}

TEST(TcpSetUp, UnknownInterface_NamesThoseThatExist) {
  tcp::Options o = options_of(0);
  o.config.interface = "wire9";
  try {
    static_cast<void>(tcp::make_transport(o));
    FAIL() << "used an interface that does not exist";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    EXPECT_NE(std::string(e.what()).find("SINEW_INTERFACE=wire9 has no address that is up; there are"),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("lo"), std::string::npos);
  }
}

TEST(TcpSetUp, NoSecret_IsRefused) {
  tcp::Options o = options_of(0);
  o.secret.clear();
  EXPECT_THROW(static_cast<void>(tcp::make_transport(o)), Error);
}

/// Leaves this process no descriptor, as long as it lives.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const FileDescriptor next(::dup(0));
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_{};
};

TEST(TcpSetUp, WaitsForRoom_WhereNoDescriptorIsLeft) {
  auto a = tcp::make_transport(options_of(0));
  auto b = tcp::make_transport(options_of(1));
  Watched s;
  const auto data = pattern(8, 1);
  std::vector<std::byte> in(8);
  std::unique_ptr<Endpoint> to_b;
  {
    const NoDescriptorLeft now;
    to_b = a->connect(b->address());
    to_b->send(view(data), user(1), 0, s);
    EXPECT_FALSE(drive({a.get(), b.get()}, seconds(1), [&] { return s.done(); }));
  }
  const auto to_a = b->connect(a->address());
  Watched r;
  to_a->recv({view(in)}, user(1), r);
  ASSERT_TRUE(drive({a.get(), b.get()}, seconds(30), [&] { return s.done() && r.done(); }));
  EXPECT_TRUE(s.status.ok()) << s.status.message();
  EXPECT_EQ(in, data);
}

TEST(TcpSetUp, SaysThatItIsShortItself_WhereNoDescriptorComes) {
  auto a = tcp::make_transport(options_of(0));
  auto b = tcp::make_transport(options_of(1));
  Watched r;
  const NoDescriptorLeft now;
  const auto to_b = a->connect(b->address());
  to_b->recv({}, user(1), r);
  ASSERT_TRUE(drive({a.get()}, seconds(30), [&] { return r.done(); }));
  EXPECT_EQ(r.status.code(), Code::System);
  EXPECT_EQ(r.status.rank(), -1) << "it is not the peer's fault";
  EXPECT_NE(r.status.message().find("this process has lacked what a connection takes: Too many open files"),
            std::string_view::npos)
      << r.status.message();
}

TEST(TcpSetUp, SecondEndpointToOneRank_IsRefused) {
  Pair pair;
  EXPECT_THROW(static_cast<void>(pair.a->connect(pair.b->address())), Error);
}

tcp::PeerAddress somebody(const std::string& host, std::vector<std::string> addresses) {
  tcp::PeerAddress p{3, 77, host, {}};
  for (const std::string& a : addresses) p.addresses.push_back({SocketAddress::parse(a), 0, {}});
  return p;
}

TEST(TcpRoutes, LoopbackLeadsOnlyToTheSameHost) {
  const auto self = somebody("h1", {"10.1.2.3:5", "127.0.0.1:5"});
  const auto same = tcp::routes_to(somebody("h1", {"10.1.2.3:6", "127.0.0.1:6"}), self);
  ASSERT_EQ(same.candidates.size(), 2u);
  EXPECT_EQ(same.candidates[0].text(), "127.0.0.1:6") << "the best first";
  const auto other = tcp::routes_to(somebody("h2", {"10.1.2.4:6", "127.0.0.1:6"}), self);
  ASSERT_EQ(other.candidates.size(), 1u);
  EXPECT_EQ(other.candidates[0].text(), "10.1.2.4:6");
}

/// Bridges of containers have the same address on many hosts.
TEST(TcpRoutes, AnAddressThatThisHostHasToo_IsTheLastToBeTried) {
  tcp::PeerAddress self = somebody("h1", {"172.17.0.1:5", "10.1.2.3:5"});
  for (tcp::InterfaceAddress& a : self.addresses) a.prefix_bits = 16;
  const auto other = tcp::routes_to(somebody("h2", {"172.17.0.1:6", "10.9.2.4:6"}), self);
  ASSERT_EQ(other.candidates.size(), 2u);
  EXPECT_EQ(other.candidates[0].text(), "10.9.2.4:6");
  const auto named_host = tcp::routes_to(somebody("h2", {"172.17.0.1:6", "10.1.2.3:6"}), self);
  EXPECT_EQ(named_host.candidates.size(), 2u) << "one machine may be two hosts by SINEW_HOST_ID";
}

TEST(TcpRoutes, NoCommonFamily_SaysWhoHasWhat) {
  const auto none = tcp::routes_to(somebody("h2", {"[fd00::1]:6", "127.0.0.1:6"}), somebody("h1", {"10.0.0.1:5"}));
  EXPECT_TRUE(none.candidates.empty());
  EXPECT_EQ(none.reason, "rank 3 has IPv6 addresses for other hosts, this rank has IPv4");
  const auto nowhere = tcp::routes_to(somebody("h2", {"127.0.0.1:6"}), somebody("h1", {"10.0.0.1:5"}));
  EXPECT_EQ(nowhere.reason, "rank 3 has no addresses for other hosts, this rank has IPv4");
}

TEST(TcpRoutes, Address_SurvivesTheExchange) {
  const auto p = somebody("h1", {"10.1.2.3:5", "[fd00::1]:5"});
  const auto q = tcp::PeerAddress::decode(p.encode());
  EXPECT_EQ(q.rank, 3);
  EXPECT_EQ(q.instance, 77u);
  EXPECT_EQ(q.host_id, "h1");
  ASSERT_EQ(q.addresses.size(), 2u);
  EXPECT_EQ(q.addresses[1].address.text(), "[fd00::1]:5");
  EXPECT_THROW(tcp::PeerAddress::decode(Address(20)), Error);
}

/// Large messages of one pair take turns: the second does not wait for the end of the first.
TEST(TcpFairness, LargeMessagesTakeTurns) {
  Pair pair;
  pair.greet();
  constexpr std::size_t kBytes = 48 << 20;
  std::vector<std::byte> out(kBytes), first(kBytes), second(4 << 20);
  Watched s1, s2, r1, r2;
  pair.to_a->recv({view(first)}, user(2), r1);
  pair.to_a->recv({view(second)}, user(3), r2);
  pair.to_b->send(view(out), user(2), 0, s1);
  pair.to_b->send({out.data(), second.size()}, user(3), 0, s2);
  ASSERT_TRUE(pair.drive(seconds(60), [&] { return r2.done(); }));
  EXPECT_FALSE(r1.done()) << "the short one came last";
  ASSERT_TRUE(pair.drive(seconds(60), [&] { return r1.done() && s1.done() && s2.done(); }));
}

}  // namespace
}  // namespace sinew::test
