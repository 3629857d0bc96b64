#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>

namespace sinew {
namespace {

TEST(SocketAddress, Parse_ReadsWhatTextWrites) {
  for (const char* text : {"127.0.0.1:80", "[::1]:65535", "@sinew"}) EXPECT_EQ(SocketAddress::parse(text).text(), text);
  for (const char* bad : {"", "host:80", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:8x", ":80"}) {
    EXPECT_THROW((void)SocketAddress::parse(bad), Error) << bad;
  }
  const std::string longest(300, 'a');
  EXPECT_EQ(SocketAddress::abstract(longest).text().size(), 108u);
  EXPECT_NE(SocketAddress::abstract(longest).text(), SocketAddress::abstract(longest + "b").text());
}

TEST(SocketAddress, Text_IsEmpty_WhereAUnixSocketHasNoName) {
  sockaddr_storage nameless{};
  nameless.ss_family = AF_UNIX;
  EXPECT_EQ(SocketAddress::from(reinterpret_cast<const sockaddr*>(&nameless), sizeof nameless.ss_family).text(), "@");
}

TEST(SocketAddress, IsOwn_KnowsLoopbackAndInterfaces) {
  EXPECT_TRUE(SocketAddress::parse("127.1.2.3:0").is_own());
  EXPECT_FALSE(SocketAddress::parse("203.0.113.9:0").is_own());
  for (const SocketAddress& a : SocketAddress::own("", 7)) EXPECT_TRUE(a.is_own() && !a.is_loopback() && a.port() == 7);
}

TEST(SocketAddress, SharesNetwork_ComparesTheFirstBits) {
  const SocketAddress a = SocketAddress::parse("10.1.2.3:0");
  EXPECT_TRUE(a.shares_network(SocketAddress::parse("10.1.2.200:80"), 24));
  EXPECT_TRUE(a.shares_network(SocketAddress::parse("10.1.3.1:0"), 23));
  EXPECT_FALSE(a.shares_network(SocketAddress::parse("10.1.3.1:0"), 24));
  EXPECT_FALSE(a.shares_network(a, 0)) << "the network is not known";
  EXPECT_FALSE(a.shares_network(SocketAddress::parse("[::ffff:10.1.2.3]:0"), 24));
  EXPECT_TRUE(SocketAddress::parse("[fd00::1]:0").shares_network(SocketAddress::parse("[fd00::2]:0"), 126));
  EXPECT_FALSE(SocketAddress::parse("[fd00::1]:0").shares_network(SocketAddress::parse("[fd00::4]:0"), 126));
}

/// The address that a socket is bound to, or is connected to.
std::string address_of(int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  EXPECT_EQ(ask(socket, reinterpret_cast<sockaddr*>(&storage), &length), 0);
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), length).text();
}

TEST(TryConnect, ComesFromTheAddressAsked_WithSegmentsAsShortAsAsked) {
  const Listener listener = listen_on(SocketAddress::parse("127.0.0.1:0"));
  const auto deadline = Deadline::after(std::chrono::seconds(10));
  const auto [socket, error] = try_connect({listener.address, SocketAddress::parse("127.0.0.77:9"), 600}, deadline);
  ASSERT_EQ(error, 0);
  EXPECT_TRUE(address_of(socket.get(), ::getsockname).starts_with("127.0.0.77:"));
  EXPECT_EQ(address_of(socket.get(), ::getpeername), listener.address.text());
  int segment = 0;
  socklen_t length = sizeof segment;
  ASSERT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &segment, &length), 0);
  EXPECT_LE(segment, 600);
  const auto [none, foreign] = try_connect({listener.address, SocketAddress::parse("203.0.113.9:0")}, deadline);
  EXPECT_EQ(foreign, EADDRNOTAVAIL);
  EXPECT_FALSE(none);
}

}  // namespace
}  // namespace sinew
