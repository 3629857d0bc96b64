#include <sys/socket.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/net/framed_stream.hpp>

namespace sinew {
namespace {

/// Two streams that are connected to each other.
struct Joined {
  static FramedStream end_of(int descriptor, std::size_t longest) {
    return {Socket(FileDescriptor(descriptor), Socket::End::Connects, nullptr), longest};
  }
  static std::array<int, 2> pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    return ends;
  }

  explicit Joined(std::size_t longest = 10 << 20)
      : ends(pair()), a(end_of(ends[0], longest)), b(end_of(ends[1], longest)) {}

  std::vector<Bytes> read_b() {
    std::vector<Bytes> messages;
    b.read([&](const Bytes& m) { messages.push_back(m); });
    return messages;
  }

  std::array<int, 2> ends;
  FramedStream a, b;
};

Bytes pattern(std::size_t bytes) {
  std::minstd_rand random(static_cast<unsigned>(bytes));
  Bytes all(bytes);
  for (std::byte& x : all) x = static_cast<std::byte>(random());
  return all;
}

TEST(FramedStream, CarriesMessagesWhole_OfAllLengths) {
  Joined joined;
  std::vector<Bytes> sent;
  for (const std::size_t bytes : {0UL, 1UL, 3UL, 4UL, 5UL, 4096UL, 65535UL, 65536UL, 65537UL, 3000000UL}) {
    sent.push_back(pattern(bytes));
    joined.a.send(FramedStream::frame(sent.back()));
  }
  std::vector<Bytes> found;
  while (found.size() < sent.size() && !joined.b.ended()) {
    for (Bytes& m : joined.read_b()) found.push_back(std::move(m));
    joined.a.flush();
  }
  EXPECT_EQ(found, sent);
  EXPECT_TRUE(joined.a.idle());
}

TEST(FramedStream, HeadAndBody_AreOneMessage) {
  Joined joined;
  joined.a.send(FramedStream::frame(pattern(3), pattern(5)));
  Bytes expected = pattern(3);
  const Bytes body = pattern(5);
  expected.insert(expected.end(), body.begin(), body.end());
  EXPECT_EQ(joined.read_b(), (std::vector<Bytes>{expected}));
}

TEST(FramedStream, Waits_WhereTheSocketIsFull) {
  Joined joined;
  joined.a.send(FramedStream::frame(pattern(5 << 20)));
  EXPECT_FALSE(joined.a.idle());
  EXPECT_TRUE(joined.a.interest().write);
  EXPECT_TRUE(joined.b.interest().read);
  EXPECT_FALSE(joined.b.interest().write);
}

TEST(FramedStream, Ends_WhereALengthIsTooLarge_WithoutMemoryForIt) {
  Joined joined(1000);
  const std::uint32_t length = 1001;
  ASSERT_EQ(::send(joined.ends[0], &length, sizeof length, 0), 4);
  EXPECT_TRUE(joined.read_b().empty());
  EXPECT_TRUE(joined.b.ended());
  EXPECT_TRUE(joined.b.has_broken_protocol());
  EXPECT_EQ(joined.b.reason(), "a message of 1001 bytes was announced: expected at most 1000");
}

TEST(FramedStream, SaysThatTheOtherSideHasClosed_AfterItsLastMessage) {
  Joined joined;
  joined.a.send(FramedStream::frame(pattern(7)));
  joined.a.finish();
  EXPECT_TRUE(joined.a.finished());
  EXPECT_EQ(joined.read_b(), (std::vector<Bytes>{pattern(7)}));
  EXPECT_TRUE(joined.b.ended());
  EXPECT_FALSE(joined.b.has_broken_protocol());
  EXPECT_EQ(joined.b.reason(), "the other side has closed the connection");
  EXPECT_EQ(joined.b.error(), 0);
}

TEST(FramedStream, SendsNothing_AfterFinishAndAfterItsEnd) {
  Joined joined;
  joined.a.finish();
  joined.a.send(FramedStream::frame(pattern(7)));
  EXPECT_TRUE(joined.read_b().empty());
  EXPECT_TRUE(joined.b.ended());

  Joined other;
  other.b.end("enough");
  other.b.send(FramedStream::frame(pattern(7)));
  EXPECT_TRUE(other.b.idle());
  EXPECT_EQ(other.b.reason(), "enough");
}

TEST(FramedStream, TakeMayEndIt_AndNoMessageFollows) {
  Joined joined;
  for (int i = 0; i < 3; ++i) joined.a.send(FramedStream::frame(pattern(9)));
  int taken = 0;
  joined.b.read([&](const Bytes&) {
    ++taken;
    joined.b.end("one is enough");
  });
  EXPECT_EQ(taken, 1);
}

}  // namespace
}  // namespace sinew
