#include <cstring>

#include "matcher_fixture.hpp"

namespace sinew::test {
namespace {

void add_bytes(void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<std::uint8_t*>(dst)[i] =
        static_cast<std::uint8_t>(static_cast<const std::uint8_t*>(a)[i] + static_cast<const std::uint8_t*>(b)[i]);
  }
}

TEST_F(MatcherTest, Eager_FillsThePostedReceiveAndReturnsItsCredit) {
  std::vector<std::byte> into(8);
  Pending r;
  matcher.recv({view(into)}, tag(1), r);
  EXPECT_EQ(matcher.pending(), 1u);
  eager(tag(1), "abc", 7);
  EXPECT_EQ(r.fired, 0) << "fired outside progress";
  EXPECT_EQ(finished.fire(), 1);
  EXPECT_EQ(r.fired, 1);
  EXPECT_TRUE(r.status.ok());
  EXPECT_EQ(r.bytes, 3u);
  EXPECT_EQ(r.note, 7u);
  EXPECT_EQ(shown(into).substr(0, 3), "abc");
  EXPECT_EQ(wire.returned, CreditWindow::charge_for(3));
  EXPECT_EQ(matcher.pending(), 0u);
  EXPECT_EQ(finished.fire(), 0) << "fired twice";
}

TEST_F(MatcherTest, Eager_WaitsWithItsBytesUntilItIsReceived) {
  eager(tag(1), "first");
  eager(tag(2), "other");
  eager(tag(1), "second");
  EXPECT_EQ(wire.returned, 0u) << "credit returned while the bytes are still kept";
  std::vector<std::byte> a(5), b(6), c(5);
  Pending ra, rb, rc;
  matcher.recv({view(a)}, tag(1), ra);
  matcher.recv({view(b)}, tag(1), rb);
  matcher.recv({view(c)}, tag(2), rc);
  EXPECT_EQ(finished.fire(), 3);
  EXPECT_EQ(shown(a), "first");
  EXPECT_EQ(shown(b), "second");
  EXPECT_EQ(shown(c), "other");
  EXPECT_EQ(wire.returned, 2 * CreditWindow::charge_for(5) + CreditWindow::charge_for(6));
}

TEST_F(MatcherTest, SameTag_MatchesInTheOrderOfTheSends) {
  std::vector<std::byte> a(1), b(1);
  Pending ra, rb;
  matcher.recv({view(a)}, tag(1), ra);
  matcher.recv({view(b)}, tag(1), rb);
  eager(tag(1), "x");
  eager(tag(1), "y");
  finished.fire();
  EXPECT_EQ(shown(a) + shown(b), "xy");
}

TEST_F(MatcherTest, ZeroBytes_CompletesEagerAndAnnounced) {
  Pending a, b;
  matcher.recv({}, tag(1), a);
  matcher.recv({}, tag(2), b);
  eager(tag(1), "");
  matcher.rendezvous({tag(2), 0, 0}, 5);
  ASSERT_EQ(wire.granted.size(), 1u);
  matcher.arrived(b, 0);
  EXPECT_EQ(finished.fire(), 2);
  EXPECT_TRUE(a.status.ok() && b.status.ok());
}

TEST_F(MatcherTest, Announced_IsGrantedWhenTheReceiveIsPosted) {
  matcher.rendezvous({tag(1), 9, 6}, 77);
  EXPECT_TRUE(wire.granted.empty());
  std::vector<std::byte> into(8);
  Pending r;
  matcher.recv({view(into)}, tag(1), r);
  ASSERT_EQ(wire.granted.size(), 1u);
  EXPECT_EQ(wire.granted[0].id, 77u);
  EXPECT_EQ(wire.granted[0].receive, &r);

  const Buffer first = Matcher::place(r);
  EXPECT_EQ(first.data, into.data());
  EXPECT_EQ(first.bytes, 6u) << "room for the message, not for the whole buffer";
  std::memcpy(first.data, "abcd", 4);
  matcher.arrived(r, 4);
  EXPECT_EQ(finished.fire(), 0);
  EXPECT_EQ(Matcher::place(r).data, into.data() + 4);
  EXPECT_EQ(Matcher::bytes_left(r), 2u);
  matcher.deliver(r, text("ef").data(), 2);
  EXPECT_EQ(finished.fire(), 1);
  EXPECT_EQ(shown(into).substr(0, 6), "abcdef");
  EXPECT_EQ(r.bytes, 6u);
  EXPECT_EQ(r.note, 9u);
}

TEST_F(MatcherTest, Announced_DoesNotBlockWhatComesBehindIt) {
  matcher.rendezvous({tag(1), 0, 1 << 20}, 1);
  std::vector<std::byte> into(1);
  Pending r;
  matcher.recv({view(into)}, tag(2), r);
  eager(tag(2), "z");
  EXPECT_EQ(finished.fire(), 1);
}

TEST_F(MatcherTest, ReducingReceive_AddsPiecesFromTheTransportsMemory) {
  const Reducer add{add_bytes, nullptr, 1};
  std::vector<std::byte> into(4), with = text("\1\2\3\4");
  Pending r;
  matcher.recv({view(into), &add, with.empty() ? ConstBuffer{} : ConstBuffer(view(with))}, tag(1), r);
  matcher.rendezvous({tag(1), 0, 4}, 1);
  EXPECT_EQ(Matcher::place(r).data, nullptr) << "a reduction has no place to read into";
  matcher.deliver(r, text("\x10\x10").data(), 2);
  matcher.deliver(r, text("\x20\x20").data(), 2);
  finished.fire();
  EXPECT_EQ(into, text("\x11\x12\x23\x24"));
}

TEST_F(MatcherTest, ReducingReceive_AddsIntoItselfWithoutAnOperand) {
  const Reducer add{add_bytes, nullptr, 1};
  std::vector<std::byte> into = text("\5\6");
  Pending r;
  matcher.recv({view(into), &add}, tag(1), r);
  eager(tag(1), "\1\1");
  finished.fire();
  EXPECT_EQ(into, text("\6\7"));
}

TEST_F(MatcherTest, ReducingReceive_RejectsHalfAnElement) {
  const Reducer add{add_bytes, nullptr, 4};
  std::vector<std::byte> into(8, std::byte{1});
  Pending r;
  matcher.recv({view(into), &add}, tag(1), r);
  eager(tag(1), "abcdef");
  finished.fire();
  EXPECT_EQ(r.status.code(), Code::Mismatch);
  EXPECT_EQ(into, std::vector<std::byte>(8, std::byte{1}));
}

TEST_F(MatcherTest, LongMessage_EndsTruncatedBeforeAByteIsTaken) {
  std::vector<std::byte> a(2, std::byte{'-'}), b(2, std::byte{'-'});
  Pending ra, rb;
  matcher.recv({view(a)}, tag(1), ra);
  matcher.recv({view(b)}, tag(2), rb);
  eager(tag(1), "abc");
  matcher.rendezvous({tag(2), 0, 100}, 4);
  finished.fire();
  EXPECT_EQ(ra.status.code(), Code::Truncated);
  EXPECT_EQ(ra.status.message(), "a message of 3 bytes for a receive of 2");
  EXPECT_EQ(rb.status.code(), Code::Truncated);
  EXPECT_EQ(rb.bytes, 100u);
  EXPECT_EQ(shown(a) + shown(b), "----");
  EXPECT_EQ(wire.returned, CreditWindow::charge_for(3));
  ASSERT_EQ(wire.refused.size(), 1u);
  EXPECT_EQ(wire.refused[0].id, 4u);
  EXPECT_EQ(wire.refused[0].why, Code::Truncated);
}

TEST_F(MatcherTest, ManyTags_MatchInReverse) {
  constexpr std::uint32_t kCount = 3000;
  std::vector<Pending> receives(kCount);
  std::vector<std::byte> into(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i)
    matcher.recv({Buffer{&into[i], 1}}, tag(i, static_cast<std::uint16_t>(i / 8)), receives[i]);
  for (std::uint32_t i = kCount; i-- > 0;) {
    const auto byte = static_cast<std::byte>(i * 7);
    matcher.eager({tag(i, static_cast<std::uint16_t>(i / 8)), 0, 1}, &byte);
  }
  EXPECT_EQ(finished.fire(), static_cast<int>(kCount));
  for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(into[i], static_cast<std::byte>(i * 7));
}

}  // namespace
}  // namespace sinew::test
