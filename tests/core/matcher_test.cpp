#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/credit_window.hpp>
#include <sinew/core/matcher.hpp>

namespace sinew {
namespace {

struct Granted {
  std::uint64_t id;
  Completion* receive;
};
struct Refused {
  std::uint64_t id;
  Code why;
  std::uint64_t note;
};

/// Writes down what the matcher asks for.
struct RecordingWire final : MatcherWire {
  std::vector<Granted> granted;
  std::vector<Refused> refused;
  std::size_t returned = 0;

  void grant(std::uint64_t id, Completion& receive) override { granted.push_back({id, &receive}); }
  void refuse(std::uint64_t id, Code why, std::uint64_t note) override { refused.push_back({id, why, note}); }
  void return_credit(std::size_t charge) override { returned += charge; }
};

struct Pending : Completion {
  Pending() : Completion([](Completion& c) noexcept { ++static_cast<Pending&>(c).fired; }) {
    status = Status::pending();
  }
  int fired = 0;
};

void add_bytes(void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<std::uint8_t*>(dst)[i] =
        static_cast<std::uint8_t>(static_cast<const std::uint8_t*>(a)[i] + static_cast<const std::uint8_t*>(b)[i]);
  }
}

constexpr std::uint8_t kGeneration = 3;

class MatcherTest : public ::testing::Test {
 protected:
  static Tag tag(std::uint32_t match, std::uint16_t sequence = 1) {
    return Tag::collective(kGeneration, 2, sequence, match, 0);
  }
  static std::vector<std::byte> text(std::string_view s) {
    const auto* p = reinterpret_cast<const std::byte*>(s.data());
    return {p, p + s.size()};
  }
  static Buffer view(std::vector<std::byte>& v) { return {v.data(), v.size()}; }

  void eager(Tag t, std::string_view s, std::uint64_t note = 0) {
    std::vector<std::byte> copy = text(s);
    matcher.eager({t, note, copy.size()}, copy.data());
    std::fill(copy.begin(), copy.end(), std::byte{0xee});
  }
  static std::string shown(const std::vector<std::byte>& v) {
    return {reinterpret_cast<const char*>(v.data()), v.size()};
  }

  RecordingWire wire;
  BlockPool pool;
  FinishedOperations finished;
  Matcher matcher{wire, pool, finished, kGeneration};
};

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
  matcher.announce({tag(2), 0, 0}, 5);
  ASSERT_EQ(wire.granted.size(), 1u);
  matcher.arrived(b, 0);
  EXPECT_EQ(finished.fire(), 2);
  EXPECT_TRUE(a.status.ok() && b.status.ok());
}

TEST_F(MatcherTest, Announced_IsGrantedWhenTheReceiveIsPosted) {
  matcher.announce({tag(1), 9, 6}, 77);
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
  matcher.announce({tag(1), 0, 1 << 20}, 1);
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
  matcher.announce({tag(1), 0, 4}, 1);
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
  matcher.announce({tag(2), 0, 100}, 4);
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

TEST_F(MatcherTest, OtherNote_EndsTheMatchedReceiveWithMismatch) {
  std::vector<std::byte> into(3, std::byte{'-'});
  Pending posted, late;
  posted.note = 5;
  matcher.recv({view(into)}, tag(1), posted);
  matcher.announce({tag(1), 6, 3}, 8);
  eager(tag(2), "abc", 6);
  late.note = 5;
  matcher.recv({view(into)}, tag(2), late);
  EXPECT_EQ(finished.fire(), 2);
  for (const Pending* r : {&posted, &late}) {
    EXPECT_EQ(r->status.code(), Code::Mismatch);
    EXPECT_EQ(r->note, 6u);
    EXPECT_EQ(r->fired, 1);
  }
  EXPECT_EQ(shown(into), "---");
  ASSERT_EQ(wire.refused.size(), 1u);
  EXPECT_EQ(wire.refused[0].why, Code::Mismatch);
  EXPECT_EQ(wire.refused[0].note, 5u) << "the sender learns what was expected";
}

TEST_F(MatcherTest, SameCallWithOtherNote_EndsAllItsReceivesAlthoughNobodyPostedTheTag) {
  Pending a, b, other_call;
  a.note = b.note = other_call.note = 5;
  matcher.recv({}, tag(1), a);
  matcher.recv({}, tag(2), b);
  matcher.recv({}, tag(1, 2), other_call);
  matcher.announce({tag(9), 6, 3}, 8);
  EXPECT_EQ(finished.fire(), 2);
  EXPECT_EQ(a.status.code(), Code::Mismatch);
  EXPECT_EQ(b.status.code(), Code::Mismatch);
  EXPECT_EQ(a.note, 6u);
  EXPECT_EQ(other_call.fired, 0);
  ASSERT_EQ(wire.refused.size(), 1u);
}

TEST_F(MatcherTest, SameCallWithOtherNote_EndsAReceivePostedLater) {
  eager(tag(9), "abc", 6);
  Pending r;
  r.note = 5;
  matcher.recv({}, tag(1), r);
  finished.fire();
  EXPECT_EQ(r.status.code(), Code::Mismatch);
  EXPECT_EQ(r.note, 6u);
  EXPECT_EQ(wire.returned, CreditWindow::charge_for(3));
}

TEST_F(MatcherTest, SameCallWithSameNote_IsNoMismatch) {
  Pending r;
  r.note = 6;
  matcher.recv({}, tag(1), r);
  eager(tag(9), "abc", 6);
  EXPECT_EQ(finished.fire(), 0);
  EXPECT_EQ(matcher.pending(), 1u);
}

TEST_F(MatcherTest, UserTags_NeverShareACall) {
  Pending r;
  r.note = 5;
  matcher.recv({}, Tag::user(kGeneration, 3, 1), r);
  eager(Tag::user(kGeneration, 3, 2), "abc", 6);
  EXPECT_EQ(finished.fire(), 0);
}

TEST_F(MatcherTest, ReceiveWithoutNote_TakesAnyCall) {
  Pending r;
  std::vector<std::byte> into(3);
  matcher.recv({view(into)}, tag(1), r);
  eager(tag(9), "zzz", 1);
  eager(tag(1), "abc", 6);
  finished.fire();
  EXPECT_TRUE(r.status.ok());
  EXPECT_EQ(r.note, 6u);
}

TEST_F(MatcherTest, OtherGeneration_IsDropped) {
  const Tag old = Tag::collective(kGeneration - 1, 2, 1, 1, 0);
  Pending r;
  matcher.recv({}, tag(1), r);
  eager(old, "abc");
  matcher.announce({old, 0, 10}, 2);
  EXPECT_EQ(finished.fire(), 0);
  EXPECT_EQ(wire.returned, CreditWindow::charge_for(3));
  ASSERT_EQ(wire.refused.size(), 1u);
  EXPECT_EQ(wire.refused[0].why, Code::Cancelled);
}

TEST_F(MatcherTest, Cancel_EndsAPostedReceiveOnce) {
  Pending a, b;
  std::vector<std::byte> into(3);
  matcher.recv({view(into)}, tag(1), a);
  matcher.recv({view(into)}, tag(1), b);
  EXPECT_TRUE(matcher.cancel(a));
  EXPECT_FALSE(matcher.cancel(a)) << "already decided";
  EXPECT_EQ(a.fired, 0);
  finished.fire();
  EXPECT_EQ(a.status.code(), Code::Cancelled);
  eager(tag(1), "abc");
  finished.fire();
  EXPECT_TRUE(b.status.ok()) << "the message belongs to the receive that is left";
  EXPECT_EQ(a.fired, 1);
}

TEST_F(MatcherTest, Cancel_IsTooLateOnceGranted) {
  Pending r;
  matcher.recv({}, tag(1), r);
  matcher.announce({tag(1), 0, 0}, 1);
  EXPECT_FALSE(matcher.cancel(r));
  matcher.arrived(r, 0);
  EXPECT_FALSE(matcher.cancel(r));
  finished.fire();
  EXPECT_TRUE(r.status.ok());
}

TEST_F(MatcherTest, Withdraw_RemovesOnlyWhatStillWaits) {
  matcher.announce({tag(1), 0, 3}, 1);
  EXPECT_TRUE(matcher.withdraw(1));
  EXPECT_FALSE(matcher.withdraw(1));
  EXPECT_FALSE(matcher.withdraw(99));
  Pending r;
  std::vector<std::byte> into(3);
  matcher.recv({view(into)}, tag(1), r);
  EXPECT_TRUE(wire.granted.empty());
  matcher.announce({tag(1), 0, 3}, 2);
  EXPECT_FALSE(matcher.withdraw(2));
  matcher.fail(r, {Code::Cancelled, "withdrawn"});
  finished.fire();
  EXPECT_EQ(r.status.code(), Code::Cancelled);
  EXPECT_EQ(matcher.pending(), 0u);
}

TEST_F(MatcherTest, Repost_WaitsAgainAsIfNothingHadBeenFound) {
  std::vector<std::byte> a(3), b(3);
  Pending first, second;
  first.note = 6;
  matcher.recv({view(a)}, tag(1), first);
  matcher.announce({tag(1), 6, 1}, 1);
  matcher.recv({view(b)}, tag(1), second);
  matcher.repost(first);
  eager(tag(1), "abc", 6);
  eager(tag(1), "def", 6);
  EXPECT_EQ(finished.fire(), 2);
  EXPECT_EQ(shown(a), "abc") << "keeps its place and its whole room";
  EXPECT_EQ(shown(b), "def");

  Pending third;
  third.note = 6;
  matcher.recv({view(a)}, tag(2), third);
  matcher.announce({tag(2), 6, 1}, 2);
  eager(tag(2), "ghi", 6);
  matcher.repost(third);
  EXPECT_EQ(finished.fire(), 1) << "takes what has come meanwhile";
  EXPECT_EQ(shown(a), "ghi");
}

TEST_F(MatcherTest, Repost_EndsWhatWasCancelledMeanwhile) {
  std::vector<std::byte> a(3);
  Pending r;
  matcher.recv({view(a)}, tag(1), r);
  matcher.announce({tag(1), 0, 3}, 1);
  EXPECT_FALSE(matcher.cancel(r));
  matcher.repost(r);
  EXPECT_EQ(finished.fire(), 1);
  EXPECT_EQ(r.status.code(), Code::Cancelled);
  EXPECT_EQ(matcher.pending(), 0u);
}

TEST_F(MatcherTest, PeerLost_EndsPostedAndLaterReceivesButDeliversWhatIsHere) {
  Pending posted, late, here, announced;
  std::vector<std::byte> into(3);
  matcher.recv({}, tag(1), posted);
  eager(tag(2), "abc");
  matcher.announce({tag(3), 0, 3}, 1);
  matcher.fail({Code::PeerLost, "rank 4 is gone", 4});
  matcher.recv({view(into)}, tag(2), here);
  matcher.recv({view(into)}, tag(3), announced);
  matcher.recv({view(into)}, tag(4), late);
  EXPECT_EQ(finished.fire(), 4);
  EXPECT_TRUE(here.status.ok());
  EXPECT_EQ(shown(into), "abc");
  for (const Pending* r : {&posted, &announced, &late}) {
    EXPECT_EQ(r->status.code(), Code::PeerLost);
    EXPECT_EQ(r->status.rank(), 4);
  }
}

TEST_F(MatcherTest, Close_EndsEverything) {
  Pending posted, later;
  matcher.recv({}, tag(1), posted);
  eager(tag(2), "abc");
  matcher.close({Code::Cancelled, "the endpoint was closed"});
  matcher.recv({}, tag(2), later);
  eager(tag(3), "abc");
  finished.fire();
  EXPECT_EQ(posted.status.code(), Code::Cancelled);
  EXPECT_EQ(later.status.code(), Code::Cancelled);
  EXPECT_EQ(matcher.pending(), 0u);
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
}  // namespace sinew
