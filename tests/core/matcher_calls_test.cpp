#include "matcher_fixture.hpp"

namespace sinew::test {
namespace {

TEST_F(MatcherTest, OtherNote_EndsTheMatchedReceiveWithMismatch) {
  std::vector<std::byte> into(3, std::byte{'-'});
  Pending posted, late;
  posted.note = 5;
  matcher.recv({view(into)}, tag(1), posted);
  matcher.rendezvous({tag(1), 6, 3}, 8);
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
  matcher.rendezvous({tag(9), 6, 3}, 8);
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
  matcher.rendezvous({old, 0, 10}, 2);
  EXPECT_EQ(finished.fire(), 0);
  EXPECT_EQ(wire.returned, CreditWindow::charge_for(3));
  ASSERT_EQ(wire.refused.size(), 1u);
  EXPECT_EQ(wire.refused[0].why, Code::Cancelled);
}

}  // namespace
}  // namespace sinew::test
