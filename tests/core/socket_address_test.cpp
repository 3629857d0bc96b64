#include <string>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/socket_address.hpp>

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

TEST(SocketAddress, IsOwn_KnowsLoopbackAndInterfaces) {
  EXPECT_TRUE(SocketAddress::parse("127.1.2.3:0").is_own());
  EXPECT_FALSE(SocketAddress::parse("203.0.113.9:0").is_own());
  for (const SocketAddress& a : SocketAddress::own("", 7)) EXPECT_TRUE(a.is_own() && !a.is_loopback() && a.port() == 7);
}

}  // namespace
}  // namespace sinew
