#include "matcher_fixture.hpp"

namespace sinew::test {
namespace {

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
  matcher.rendezvous({tag(1), 0, 0}, 1);
  EXPECT_FALSE(matcher.cancel(r));
  matcher.arrived(r, 0);
  EXPECT_FALSE(matcher.cancel(r));
  finished.fire();
  EXPECT_TRUE(r.status.ok());
}

TEST_F(MatcherTest, Withdraw_RemovesOnlyWhatStillWaits) {
  matcher.rendezvous({tag(1), 0, 3}, 1);
  EXPECT_TRUE(matcher.withdraw(1));
  EXPECT_FALSE(matcher.withdraw(1));
  EXPECT_FALSE(matcher.withdraw(99));
  Pending r;
  std::vector<std::byte> into(3);
  matcher.recv({view(into)}, tag(1), r);
  EXPECT_TRUE(wire.granted.empty());
  matcher.rendezvous({tag(1), 0, 3}, 2);
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
  matcher.rendezvous({tag(1), 6, 1}, 1);
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
  matcher.rendezvous({tag(2), 6, 1}, 2);
  eager(tag(2), "ghi", 6);
  matcher.repost(third);
  EXPECT_EQ(finished.fire(), 1) << "takes what has come meanwhile";
  EXPECT_EQ(shown(a), "ghi");
}

TEST_F(MatcherTest, Repost_EndsWhatWasCancelledMeanwhile) {
  std::vector<std::byte> a(3);
  Pending r;
  matcher.recv({view(a)}, tag(1), r);
  matcher.rendezvous({tag(1), 0, 3}, 1);
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
  matcher.rendezvous({tag(3), 0, 3}, 1);
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

}  // namespace
}  // namespace sinew::test
