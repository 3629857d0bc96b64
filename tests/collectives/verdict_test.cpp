#include <unistd.h>

#include <cstddef>
#include <new>
#include <source_location>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/control/verdict/verdict.hpp>
#include <sinew/core/runtime/record_ring.hpp>

namespace sinew {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kCommunicator = 99;

Fingerprint reduce_of(std::uint64_t count, ReduceOp op = ReduceOp::Sum) {
  return fingerprint_of({.collective = Collective::AllReduce, .dtype = DType::F32, .op = op, .count = count});
}
Fingerprint broadcast_from(int root) {
  return fingerprint_of({.collective = Collective::Broadcast, .dtype = DType::F32, .root = root, .count = 4});
}

/// Ranks that write records and are asked about them, all in one place.
struct Ranks {
  struct One {
    std::byte* memory = new (std::align_val_t(64)) std::byte[RecordRing::bytes()]();
    RecordRing ring{memory, 0};
    std::uint64_t history = 0;
    bool left = false;
    One() = default;
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    ~One() { ::operator delete[](memory, std::align_val_t(64)); }
  };
  std::vector<std::unique_ptr<One>> all;

  explicit Ranks(int count) {
    while (static_cast<int>(all.size()) < count) all.push_back(std::make_unique<One>());
  }
  OpenRecord call(std::size_t rank, std::uint32_t sequence, Fingerprint f,
                  std::source_location where = std::source_location::current()) {
    One& one = *all[rank];
    one.history = one.history * 31 + f;
    return one.ring.enter({kCommunicator, f, one.history, sequence, -1, 6}, where);
  }
  void everybody(std::uint32_t sequence, Fingerprint f) {
    for (std::size_t r = 0; r < all.size(); ++r) call(r, sequence, f).complete(Code::Ok);
  }
  Group group(int rank) const {
    Group of{.rank = rank, .communicator = 6, .identity = kCommunicator, .name = "tp"};
    for (std::size_t r = 0; r < all.size(); ++r)
      of.world_ranks.push_back(world_ranks.empty() ? static_cast<int>(r) : world_ranks[r]);
    return of;
  }
  std::vector<int> world_ranks{};  // empty: equal to the communicator's ranks
  Verdict judge(std::size_t rank, std::uint32_t sequence, const Status& world_end = {}) const {
    const RecordPage* mine = all[rank]->ring.page();
    const Question asked = ask_about(mine, static_cast<int>(rank), kCommunicator, sequence, {});
    const Question question = Question::decode(asked.encode());
    std::vector<RankReport> reports;
    for (std::size_t r = 0; r < all.size(); ++r) {
      reports.push_back(report_on(all[r]->ring.page(), static_cast<int>(r), ::getpid(), all[r]->left, question));
    }
    Question about;
    std::vector<std::optional<RankReport>> told;
    for (RankReport& r : RankReport::decode(RankReport::encode(question, reports), about))
      told.emplace_back(std::move(r));
    EXPECT_EQ(about.sequence, sequence);
    told[rank].reset();
    const Waiting waiting{.call = *report_call(mine, kCommunicator, sequence),
                          .waited_ms = 250,
                          .group = group(static_cast<int>(rank)),
                          .world_end = world_end};
    return sinew::judge(waiting, told, [&](std::uint32_t s) { return report_call(mine, kCommunicator, s); });
  }
};

TEST(Verdict, FindsNothing_WhenAllHaveCome) {
  Ranks ranks(3);
  ranks.everybody(1, reduce_of(4));
  for (std::size_t r = 0; r < 3; ++r) ranks.call(r, 2, reduce_of(4));
  const Verdict v = ranks.judge(0, 2);
  EXPECT_EQ(v.finding, Finding::OnItsWay);
  EXPECT_TRUE(v.status().ok());
}

TEST(Verdict, TellsACapturedCallFromOneThatRuns) {
  CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .place = {MemoryKind::Device, 0}};
  desc.count = 4;
  CollectiveDesc captured = desc;
  captured.captured = true;
  Ranks ranks(2);
  ranks.call(0, 1, fingerprint_of(desc));
  ranks.call(1, 1, fingerprint_of(captured)).complete(Code::Ok);
  const Verdict differs = ranks.judge(0, 1);
  EXPECT_EQ(differs.finding, Finding::Mismatched);
  EXPECT_THAT(differs.text, HasSubstr("rank 1: all_reduce(f32, sum, count 4, device memory, captured)"));
}

TEST(Verdict, SaysThatReplaysAreUnseen_WhereTheLatestCallWasCaptured) {
  CollectiveDesc captured{.collective = Collective::AllReduce, .dtype = DType::F32, .place = {MemoryKind::Device, 0}};
  captured.captured = true;
  Ranks ranks(2);
  ranks.everybody(1, fingerprint_of(captured));
  OpenRecord waits = ranks.call(0, 2, reduce_of(4));
  EXPECT_THAT(ranks.judge(0, 2).text, HasSubstr("replays of its graph are seen by nobody"));
  waits.complete(Code::Ok);
  ranks.call(1, 2, reduce_of(4)).complete(Code::Ok);
  ranks.call(0, 3, reduce_of(4));
  EXPECT_THAT(ranks.judge(0, 3).text, Not(HasSubstr("replays of its graph")));
}

TEST(Verdict, SaysWhereALateRankIs) {
  Ranks ranks(3);
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.call(2, 2, reduce_of(4));
  const Verdict v = ranks.judge(0, 2);
  EXPECT_EQ(v.finding, Finding::Late);
  EXPECT_EQ(v.blamed, 1);
  EXPECT_THAT(v.text, AllOf(HasSubstr("rank 1 is late: it has been in no call for"), HasSubstr("call 2 on tp of 3: "),
                            HasSubstr("verdict_test.cpp:"), Not(HasSubstr("rank 2"))));
  EXPECT_TRUE(v.status().ok());
}

TEST(Verdict, SaysThatARankHasMadeNoCall) {
  Ranks ranks(2);
  ranks.call(0, 1, reduce_of(4));
  EXPECT_THAT(ranks.judge(0, 1).text, HasSubstr("rank 1 is late: it has made no call yet"));
}

TEST(Verdict, ShowsBothCalls_WhenTheyDiffer) {
  Ranks ranks(3);
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.call(1, 2, broadcast_from(1));
  ranks.call(2, 2, reduce_of(4));
  const Verdict first = ranks.judge(0, 2);
  EXPECT_EQ(first.finding, Finding::Mismatched);
  EXPECT_EQ(first.blamed, 1);
  EXPECT_THAT(first.text, AllOf(HasSubstr("call 2 on tp of 3 is not the same on all ranks: ranks 0, 2: "
                                          "all_reduce(f32, sum, count 4) at "),
                                HasSubstr("; rank 1: broadcast(f32, count 4, root 1) at ")));
  EXPECT_EQ(ranks.judge(1, 2).finding, Finding::Mismatched);
}

TEST(Verdict, FindsCallsThatWentWellOnBothSides) {
  Ranks ranks(2);
  ranks.call(0, 1, broadcast_from(0)).complete(Code::Ok);
  ranks.call(1, 1, broadcast_from(1)).complete(Code::Ok);
  ranks.everybody(2, reduce_of(4));
  const Verdict v = ranks.judge(0, 2);
  EXPECT_EQ(v.finding, Finding::Mismatched);
  EXPECT_THAT(v.text, AllOf(HasSubstr("call 1 on"), HasSubstr("root 0"), HasSubstr("root 1")));
}

TEST(Verdict, FindsADifferenceThatNoRecordRemembers) {
  Ranks ranks(2);
  ranks.call(0, 1, reduce_of(4)).complete(Code::Ok);
  ranks.call(1, 1, reduce_of(4, ReduceOp::Max)).complete(Code::Ok);
  for (std::uint32_t s = 2; s < 3000; ++s) ranks.everybody(s, reduce_of(s));
  const Verdict v = ranks.judge(1, 2999);
  EXPECT_EQ(v.finding, Finding::Mismatched);
  EXPECT_THAT(v.text, HasSubstr("ranks 0, 1 made different calls on tp of 2 long before call 2999"));
}

/// A rank may make a thousand other calls while one of its own waits: what it knows of that is no history.
TEST(Verdict, ComparesNoHistory_WhenItsOwnIsForgotten) {
  Ranks ranks(2);
  ranks.everybody(1, reduce_of(4));
  const Waiting waiting{.call = {.fingerprint = reduce_of(4), .communicator = kCommunicator, .sequence = 1}};
  const Question question{.communicator = kCommunicator, .sequence = 1};
  const std::vector<std::optional<RankReport>> reports{
      std::nullopt, report_on(ranks.all[1]->ring.page(), 1, ::getpid(), false, question)};
  const Verdict v = judge(waiting, reports, [](std::uint32_t) { return std::nullopt; });
  EXPECT_EQ(v.finding, Finding::OnItsWay) << v.text;
}

TEST(Verdict, SaysThatARankClosedTheCommunicator) {
  Ranks ranks(2);
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.call(1, 2, kClosedFingerprint).complete(Code::Ok);
  const Verdict v = ranks.judge(0, 2);
  EXPECT_EQ(v.status().code(), Code::Mismatch);
  EXPECT_THAT(v.text, HasSubstr("rank 1: no call: it destroyed the communicator"));
}

TEST(Verdict, WaitsForTheReason_WhenARankGaveTheCommunicatorUp) {
  Ranks ranks(3);
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.call(1, 2, kClosedFingerprint).complete(Code::PeerLost);
  ranks.call(2, 2, reduce_of(4));
  const Verdict before = ranks.judge(0, 2);
  EXPECT_EQ(before.finding, Finding::Late) << before.text;
  EXPECT_EQ(before.blamed, 1);
  const Verdict after = ranks.judge(0, 2, {Code::PeerLost, "rank 7 ended", 7});
  EXPECT_EQ(after.status().code(), Code::PeerLost) << after.text;
  EXPECT_EQ(after.status().rank(), 1);
  EXPECT_THAT(after.text, AllOf(HasSubstr("rank 1 destroyed the communicator"), HasSubstr("all_reduce(f32"),
                                HasSubstr("after rank 7 ended")));
}

TEST(Verdict, CountsARankThatLeftAsLost_WhenACallNeedsIt) {
  Ranks ranks(2);
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.call(1, 2, kClosedFingerprint).complete(Code::Ok);
  ranks.all[1]->left = true;
  const Verdict v = ranks.judge(0, 2);
  EXPECT_EQ(v.status().code(), Code::PeerLost);
  EXPECT_EQ(v.status().rank(), 1);
  EXPECT_THAT(v.text, HasSubstr("rank 1 has ended its World"));
  // What it has finished before needs it no more.
  EXPECT_EQ(ranks.judge(0, 1).finding, Finding::OnItsWay);
}

TEST(Verdict, LooksAtThePeerOnly_WhenAMessageWaits) {
  Ranks ranks(3);
  const Waiting waiting{
      {.fingerprint = fingerprint_of({.collective = Collective::Recv}), .peer = 2, .site = "x:1"}, 300, ranks.group(0)};
  std::vector<std::optional<RankReport>> reports{std::nullopt, std::nullopt, RankReport{.rank = 2, .state = 'T'}};
  const Verdict v = judge(waiting, reports, [](std::uint32_t) { return std::nullopt; });
  EXPECT_EQ(v.finding, Finding::Late);
  EXPECT_THAT(v.text,
              AllOf(HasSubstr("recv from rank 2 at x:1"), HasSubstr("process is stopped"), Not(HasSubstr("rank 1"))));
}

/// Rank 0 waits for rank 1, which waits for rank 2, which is stopped.
TEST(Verdict, BlamesTheStoppedRank_WhenThePeerOfAMessageWaitsForIt) {
  Ranks ranks(4);
  const Fingerprint receive = fingerprint_of({.collective = Collective::Recv});
  const Waiting waiting{
      {.fingerprint = receive, .communicator = kCommunicator, .peer = 1, .site = "x:1"}, 300, ranks.group(0)};
  const auto judged = [&](char state) {
    std::vector<std::optional<RankReport>> reports;
    for (int r = 0; r < 4; ++r) {
      const RecordPage* page = ranks.all[static_cast<std::size_t>(r)]->ring.page();
      const Question question{.communicator = kCommunicator};
      const std::vector<RankReport> told{report_on(page, r, ::getpid(), false, question)};
      Question about;
      reports.emplace_back(RankReport::decode(RankReport::encode(question, told), about).front());
    }
    reports[0].reset();
    reports[2]->state = state;
    return judge(waiting, reports, [](std::uint32_t) { return std::nullopt; });
  };
  const auto message = [&](std::size_t rank, int peer) {
    return ranks.all[rank]->ring.enter({kCommunicator, receive, 0, 0, peer, 6}, std::source_location::current());
  };
  message(1, 2);
  EXPECT_EQ(judged('S').blamed, 1);
  EXPECT_THAT(judged('S').text, AllOf(HasSubstr("rank 1 is late: it has been in recv from rank 2 at "),
                                      Not(HasSubstr("rank 2 is late"))));
  EXPECT_EQ(judged('T').blamed, 2);
  EXPECT_THAT(judged('T').text,
              HasSubstr("on tp of 4: rank 2 is late: it has made no call yet; its process is stopped; "
                        "rank 1 is late: it has been in recv from rank 2 at "));
  // The latest of several messages has come. Rank 0 is the one that asks, and so leads nowhere.
  message(1, 0);
  message(1, 3).complete(Code::Ok);
  EXPECT_EQ(judged('T').blamed, 2);
  EXPECT_THAT(judged('T').text, HasSubstr("rank 1 is late: it has open messages with ranks 0, 2; its latest call, recv "
                                          "from rank 3 at "));
}

/// The deadlines of ranks 0 and 1 pass together, and rank 1 has seen it first.
TEST(Verdict, BlamesTheStoppedRank_WhenThePeersMessageHasJustTimedOut) {
  Ranks ranks(3);
  const Fingerprint receive = fingerprint_of({.collective = Collective::Recv});
  ranks.all[1]
      ->ring.enter({kCommunicator, receive, 0, 0, 2, 6}, std::source_location::current())
      .complete(Code::Timeout);
  std::vector<std::optional<RankReport>> reports(3);
  for (std::size_t r = 1; r < 3; ++r) {
    reports[r] =
        report_on(ranks.all[r]->ring.page(), static_cast<int>(r), ::getpid(), false, {.communicator = kCommunicator});
  }
  reports[2]->state = 'T';
  const Waiting waiting{
      {.fingerprint = receive, .communicator = kCommunicator, .peer = 1, .site = "x:1"}, 300, ranks.group(0)};
  EXPECT_EQ(judge(waiting, reports, [](std::uint32_t) { return std::nullopt; }).blamed, 2);
}

TEST(Verdict, SaysThatAHostHasNotAnswered) {
  Ranks ranks(1);
  ranks.call(0, 1, reduce_of(4));
  const std::vector<std::optional<RankReport>> reports(2);
  const auto mine = report_call(ranks.all[0]->ring.page(), kCommunicator, 1);
  EXPECT_THAT(judge({*mine, 0, {}}, reports, [&](std::uint32_t) { return mine; }).text,
              HasSubstr("rank 1: its host has not answered"));
}

TEST(Verdict, ShowsTheCommunicatorsNumbersBesideTheWorlds_WhereTheyDiffer) {
  Ranks ranks(3);
  ranks.world_ranks = {7, 5, 3};
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.call(2, 2, reduce_of(4));
  const Verdict late = ranks.judge(0, 2);
  EXPECT_EQ(late.blamed, 1);
  EXPECT_THAT(late.text,
              AllOf(HasSubstr("rank 7 (0 in tp) has waited 250 ms in all_reduce(f32, sum, count 4) at "),
                    HasSubstr(", call 2 on tp of 3: rank 5 (1 in tp) is late: it has been in no call for ")));
  ranks.call(1, 2, broadcast_from(1));
  EXPECT_THAT(ranks.judge(0, 2).text, AllOf(HasSubstr("on all ranks: ranks 3, 7 (2, 0 in tp): all_reduce(f32"),
                                            HasSubstr("; rank 5 (1 in tp): broadcast(f32")));
  EXPECT_EQ(ranks.judge(0, 2).blamed, 1);
  const Waiting message{
      {.fingerprint = fingerprint_of({.collective = Collective::Recv}), .peer = 5, .site = "x:1"}, 300, ranks.group(0)};
  const std::vector<std::optional<RankReport>> silent(3);
  EXPECT_THAT(judge(message, silent, [](std::uint32_t) { return std::nullopt; }).text,
              AllOf(HasSubstr("in recv from rank 5 (1 in tp) at x:1 on tp of 3: "),
                    HasSubstr(": rank 5 (1 in tp): its host has not answered"), Not(HasSubstr("rank 3"))));
}

TEST(Verdict, CallsTheCommunicatorOfAnotherCallAsItsRankDoes) {
  Ranks ranks(2);
  ranks.everybody(1, reduce_of(4));
  ranks.call(0, 2, reduce_of(4));
  ranks.all[1]->ring.join({.rank = 1, .world_ranks = {4, 1}, .communicator = 8, .identity = 44, .name = "pp"});
  ranks.all[1]->ring.enter({44, broadcast_from(0), 5, 1, -1, 8}, std::source_location::current());
  EXPECT_THAT(ranks.judge(0, 2).text, HasSubstr("rank 1 is late: it has been in broadcast(f32, count 4, root 0) at "));
  EXPECT_THAT(ranks.judge(0, 2).text, HasSubstr(" on pp of 2 for "));
}

}  // namespace
}  // namespace sinew
