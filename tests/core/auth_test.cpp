#include <algorithm>
#include <cstring>
#include <string_view>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>

namespace sinew {
namespace {

using State = Authentication::State;

Bytes secret(std::string_view text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

const AuthClaim kClaim{0x7463, 1, 2, 5, 0xabcd};
const AuthClaim kExpected{0x7463, -1, 2, 0, 0xabcd};

/// Carries what `from` has to say to `to`, `piece` bytes at a time; says whether anything moved.
bool carry(Authentication& from, Authentication& to, std::size_t piece) {
  bool moved = false;
  while (!from.to_send().empty() && !to.room().empty()) {
    const std::size_t n = std::min({piece, from.to_send().size(), to.room().size()});
    std::memcpy(to.room().data(), from.to_send().data(), n);
    from.sent(n);
    to.received(n);
    moved = true;
  }
  return moved;
}

void talk(Authentication& a, Authentication& b, std::size_t piece = 1000) {
  while (carry(a, b, piece) || carry(b, a, piece)) {
  }
}

TEST(Authentication, BothSidesAreProven_WithTheSameSecret) {
  for (const std::size_t piece : {1u, 7u, 1000u}) {
    auto c = Authentication::connector(secret("s3"), kClaim);
    auto a = Authentication::acceptor(secret("s3"), kExpected);
    talk(c, a, piece);
    EXPECT_EQ(c.state(), State::Proven);
    EXPECT_EQ(a.state(), State::Proven);
    EXPECT_EQ(a.claim(), kClaim) << "the acceptor learns who connected and on which channel";
    EXPECT_TRUE(c.to_send().empty() && a.to_send().empty() && c.room().empty() && a.room().empty());
  }
}

TEST(Authentication, ConnectorRefuses_WhenTheListenerHasAnotherSecret) {
  auto c = Authentication::connector(secret("right"), kClaim);
  auto a = Authentication::acceptor(secret("wrong"), kExpected);
  talk(c, a);
  EXPECT_EQ(c.state(), State::Refused);
  EXPECT_EQ(c.reason().find("the listener does not know the job's secret"), 0U) << c.reason();
  EXPECT_EQ(a.state(), State::Underway) << "nothing more came";
  EXPECT_TRUE(c.to_send().empty()) << "no proof is given to a stranger";
}

TEST(Authentication, AcceptorRefuses_AStrangersProof) {
  auto c = Authentication::connector(secret("right"), kClaim);
  auto a = Authentication::acceptor(secret("right"), kExpected);
  carry(c, a, 1000);
  ASSERT_EQ(a.to_send().size(), Authentication::kReplyBytes);
  std::memset(a.room().data(), 0x5a, a.room().size());
  a.received(a.room().size());
  EXPECT_EQ(a.state(), State::Refused);
}

TEST(Authentication, AcceptorRefuses_ItsOwnProofReflected) {
  auto c = Authentication::connector(secret("right"), kClaim);
  auto a = Authentication::acceptor(secret("right"), kExpected);
  carry(c, a, 1000);
  const auto reply = a.to_send();
  std::memcpy(a.room().data(), reply.data() + 32, Authentication::kProofBytes);
  a.received(Authentication::kProofBytes);
  EXPECT_EQ(a.state(), State::Refused);
}

TEST(Authentication, AcceptorRefuses_AReplayedConversation) {
  Bytes recorded;
  {
    auto c = Authentication::connector(secret("right"), kClaim);
    auto a = Authentication::acceptor(secret("right"), kExpected);
    recorded.insert(recorded.end(), c.to_send().begin(), c.to_send().end());
    carry(c, a, 1000);
    carry(a, c, 1000);
    recorded.insert(recorded.end(), c.to_send().begin(), c.to_send().end());
  }
  ASSERT_EQ(recorded.size(), Authentication::kHelloBytes + Authentication::kProofBytes);
  auto a = Authentication::acceptor(secret("right"), kExpected);
  std::memcpy(a.room().data(), recorded.data(), Authentication::kHelloBytes);
  a.received(Authentication::kHelloBytes);
  std::memcpy(a.room().data(), recorded.data() + Authentication::kHelloBytes, Authentication::kProofBytes);
  a.received(Authentication::kProofBytes);
  EXPECT_EQ(a.state(), State::Refused);
}

TEST(Authentication, AcceptorRefuses_Garbage) {
  auto garbage = Authentication::acceptor(secret("s"), kExpected);
  std::memcpy(garbage.room().data(), "GET / HTTP/1.1\r\n", 16);
  garbage.received(garbage.room().size());
  EXPECT_EQ(garbage.state(), State::Refused);
  EXPECT_EQ(garbage.reason(), "not a hello of this protocol");
}

TEST(Authentication, NamesTheOtherVersion_OnBothSides) {
  auto a = Authentication::acceptor(secret("s"), kExpected);
  std::memcpy(a.room().data(), "sinew/7\n", 8);
  a.received(a.room().size());
  EXPECT_EQ(a.state(), State::Refused);
  EXPECT_EQ(
      a.reason().find("the connecting side speaks version 7 of the protocol of connections, this process version"), 0U)
      << a.reason();
  EXPECT_TRUE(a.is_of_sinew());
  std::string answer(reinterpret_cast<const char*>(a.to_send().data()), a.to_send().size());
  ASSERT_EQ(answer, "sinew/1\n");

  answer[6] = '7';  // as a listener of that version says
  auto c = Authentication::connector(secret("s"), kExpected);
  std::memcpy(c.room().data(), answer.data(), answer.size());
  c.received(answer.size());
  EXPECT_EQ(c.state(), State::Refused);
  EXPECT_EQ(c.reason().find("the listener speaks version 7 of the protocol of connections"), 0U) << c.reason();
}

TEST(Authentication, AClaimThatNobodyTakes_IsAnsweredLikeAWrongSecret) {
  for (const AuthClaim& wrong :
       {AuthClaim{0x7464, 1, 2, 5, 0xabcd}, AuthClaim{0x7463, 1, 3, 5, 0xabcd}, AuthClaim{0x7463, 1, 2, 5, 0xabce}}) {
    auto c = Authentication::connector(secret("s"), wrong);
    auto a = Authentication::acceptor(secret("s"), kExpected);
    talk(c, a);
    EXPECT_EQ(c.state(), State::Refused);
    EXPECT_EQ(c.reason().find("the listener does not know the job's secret"), 0U) << c.reason();
    EXPECT_EQ(a.state(), State::Underway) << "nothing more came";
    std::memset(a.room().data(), 0x5a, a.room().size());
    a.received(a.room().size());
    EXPECT_EQ(a.state(), State::Refused);
    EXPECT_EQ(a.reason().find("nobody here takes connections for service"), 0U) << a.reason();
  }
}

TEST(Authentication, TakesTheSecretOfTheClaim) {
  const auto secret_of = [](const AuthClaim& c) { return std::optional(secret(c.instance == 1 ? "one" : "two")); };
  for (const std::uint64_t instance : {1, 2}) {
    auto c = Authentication::connector(secret(instance == 1 ? "one" : "two"), {.instance = instance});
    auto a = Authentication::acceptor(secret_of);
    talk(c, a);
    EXPECT_EQ(c.state(), State::Proven);
    EXPECT_EQ(a.state(), State::Proven);
    EXPECT_EQ(a.claim().instance, instance);
  }
  auto other = Authentication::connector(secret("two"), {.instance = 1});
  auto a = Authentication::acceptor(secret_of);
  talk(other, a);
  EXPECT_EQ(other.state(), State::Refused) << "the secret of another instance";
}

TEST(Authentication, AcceptorRefuses_AClaimChangedOnTheWay) {
  auto c = Authentication::connector(secret("s"), kClaim);
  auto a = Authentication::acceptor(secret("s"), kExpected);
  Bytes hello(c.to_send().begin(), c.to_send().end());
  hello[12] ^= std::byte{4};  // from_rank
  c.sent(hello.size());
  std::memcpy(a.room().data(), hello.data(), hello.size());
  a.received(hello.size());
  carry(a, c, 1000);
  EXPECT_EQ(c.state(), State::Refused);
}

TEST(Authentication, RejectsAnEmptySecret) {
  EXPECT_THROW(Authentication::connector({}, kClaim), Error);
  EXPECT_THROW(Authentication::acceptor({}, kExpected), Error);
}

}  // namespace
}  // namespace sinew
