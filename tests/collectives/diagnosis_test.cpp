#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/control/verdict/diagnosis.hpp>
#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/core/runtime/record_ring.hpp>

namespace sinew {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kWorld = 0, kPair = 77;

Fingerprint reduce_of(std::uint64_t count) {
  return fingerprint_of(
      {.collective = Collective::AllReduce, .dtype = DType::F32, .op = ReduceOp::Sum, .count = count});
}

/// Ranks that wrote records, looked at from outside.
class Job {
 public:
  explicit Job(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      auto* memory = new (std::align_val_t(64)) std::byte[RecordRing::bytes()]();
      pages_.emplace_back(memory, [](std::byte* m) { ::operator delete[](m, std::align_val_t(64)); });
      rings_.push_back(std::make_unique<RecordRing>(memory, r));
      records.push_back({r, 100 + r, 'S', {pages_.back(), rings_.back()->page()}});
    }
  }
  OpenRecord call(std::size_t rank, std::uint32_t sequence, Fingerprint f, std::uint64_t communicator = kWorld,
                  std::int32_t peer = -1) {
    const auto id = static_cast<std::uint16_t>(communicator == kWorld ? 0 : 6);
    return rings_[rank]->enter({communicator, f, f, sequence, peer, id}, std::source_location::current());
  }
  void everybody(std::uint32_t sequence) {
    for (std::size_t r = 0; r < rings_.size(); ++r) call(r, sequence, reduce_of(4)).complete(Code::Ok);
  }
  void share(std::uint64_t communicator, const std::vector<std::size_t>& ranks) {
    for (std::size_t place = 0; place < ranks.size(); ++place)
      rings_[ranks[place]]->join({.rank = static_cast<int>(place),
                                  .world_ranks = std::vector<int>(ranks.begin(), ranks.end()),
                                  .communicator = 6,
                                  .identity = communicator,
                                  .name = "pair"});
  }
  void leave(std::size_t rank, std::uint32_t sequence) { call(rank, sequence, kClosedFingerprint).complete(Code::Ok); }
  /// Two seconds from now.
  Diagnosis look() const { return diagnose(records, coarse_now() + 2'000'000'000, 1000); }

  std::vector<RankRecords> records;

 private:
  std::vector<std::shared_ptr<std::byte>> pages_;
  std::vector<std::unique_ptr<RecordRing>> rings_;
};

TEST(Diagnosis, FindsNothing_WhereNothingWaits) {
  Job job(3);
  job.everybody(1);
  EXPECT_TRUE(job.look().stuck.empty());
  EXPECT_THAT(job.look().ranks[1].text, HasSubstr("in no call for 2."));
}

TEST(Diagnosis, LeavesOutWhatHasNotWaitedLong) {
  Job job(2);
  static_cast<void>(job.call(0, 1, reduce_of(4)));
  EXPECT_TRUE(diagnose(job.records, coarse_now(), 1000).stuck.empty());
  EXPECT_EQ(job.look().stuck.size(), 1U);
}

TEST(Diagnosis, NamesWhoHasNotCalled) {
  Job job(3);
  job.everybody(1);
  for (const std::size_t r : {0U, 1U}) static_cast<void>(job.call(r, 2, reduce_of(4)));
  const StuckCall s = job.look().stuck.at(0);
  EXPECT_EQ(s.cause, Cause::NotCalled);
  EXPECT_EQ(s.blamed, 2);
  EXPECT_THAT(s.waiting, ElementsAre(0, 1));
  EXPECT_THAT(s.call, HasSubstr("all_reduce(f32, sum, count 4) at "));
  EXPECT_THAT(s.text, HasSubstr("rank 2 is late: it has been in no call"));
}

TEST(Diagnosis, NamesWhoIsStopped_DeadOrGone) {
  Job job(3);
  job.everybody(1);
  for (const std::size_t r : {0U, 1U}) static_cast<void>(job.call(r, 2, reduce_of(4)));
  job.records[2].state = 'T';
  EXPECT_EQ(job.look().stuck.at(0).cause, Cause::Stopped);
  job.records[2].state = '\0';
  const StuckCall dead = job.look().stuck.at(0);
  EXPECT_EQ(dead.cause, Cause::Dead);
  EXPECT_THAT(dead.text, HasSubstr("rank 2 (process 102) is dead: it was in no call"));
  job.leave(2, 2);
  EXPECT_EQ(job.look().stuck.at(0).cause, Cause::Left);
  EXPECT_EQ(job.look().ranks[2].text, "through with its World");
}

TEST(Diagnosis, NamesWhoIsStoppedInside) {
  Job job(2);
  for (const std::size_t r : {0U, 1U}) static_cast<void>(job.call(r, 1, reduce_of(4)));
  EXPECT_EQ(job.look().stuck.at(0).cause, Cause::OnItsWay);
  job.records[1].state = 'T';
  EXPECT_EQ(job.look().stuck.at(0).cause, Cause::Stopped);
  EXPECT_EQ(job.look().stuck.at(0).blamed, 1);
}

TEST(Diagnosis, ShowsBothCalls_WhereTheyDiffer) {
  Job job(3);
  job.everybody(1);
  for (const std::size_t r : {0U, 1U, 2U}) static_cast<void>(job.call(r, 2, reduce_of(r == 1 ? 5 : 4)));
  const StuckCall s = job.look().stuck.at(0);
  EXPECT_EQ(s.cause, Cause::Mismatched);
  EXPECT_EQ(s.blamed, 1);
  EXPECT_THAT(s.text, HasSubstr("ranks 0, 2: all_reduce(f32, sum, count 4)"));
  EXPECT_THAT(s.text, HasSubstr("rank 1: all_reduce(f32, sum, count 5)"));
}

TEST(Diagnosis, MissesARankThatHasNeverCalledOnItsCommunicator) {
  Job job(4);
  job.share(kPair, {3, 1, 2});
  for (const std::size_t r : {3U, 2U}) static_cast<void>(job.call(r, 1, reduce_of(4), kPair));
  const StuckCall s = job.look().stuck.at(0);
  EXPECT_EQ(s.cause, Cause::NotCalled);
  EXPECT_EQ(s.blamed, 1);
  EXPECT_THAT(s.waiting, ElementsAre(2, 3));
  EXPECT_THAT(s.text, HasSubstr("rank 1 is late: it has made no call yet"));
}

TEST(Diagnosis, NumbersRanksAsTheWorldDoes) {
  Job job(4);
  job.share(kPair, {2, 3});
  const Fingerprint receive = fingerprint_of({.collective = Collective::Recv, .count = 8});
  static_cast<void>(job.call(2, 0, receive, kPair, 3));
  const StuckCall s = job.look().stuck.at(0);
  EXPECT_EQ(s.blamed, 3);
  EXPECT_THAT(s.call, HasSubstr("recv from rank 3 (1 in pair) at "));
  EXPECT_THAT(s.text, HasSubstr("rank 2 (0 in pair) has waited 2.0 s in recv from rank 3 (1 in pair) at "));
  EXPECT_THAT(s.text, HasSubstr("rank 3 (1 in pair) is late: it has made no call yet"));
  EXPECT_THAT(job.look().ranks[2].text, HasSubstr("in recv from rank 3 (1 in pair) at "));
  EXPECT_THAT(job.look().ranks[2].text, HasSubstr(" on pair of 2, for 2.0 s"));
}

/// Ranks 1 and 2 share a communicator, on which rank 2 waits while rank 1 is in a call of all.
TEST(Diagnosis, NamesWhoIsInAnotherCall) {
  Job job(3);
  for (const std::size_t r : {1U, 2U}) job.call(r, 1, reduce_of(4), kPair).complete(Code::Ok);
  static_cast<void>(job.call(2, 2, reduce_of(4), kPair));
  static_cast<void>(job.call(1, 1, reduce_of(4)));
  const Diagnosis d = job.look();
  ASSERT_EQ(d.stuck.size(), 2U);
  for (const StuckCall& s : d.stuck) {
    if (s.communicator == 6) {
      EXPECT_EQ(s.cause, Cause::Elsewhere);
      EXPECT_EQ(s.blamed, 1);
    } else {
      EXPECT_EQ(s.blamed, 0);
      EXPECT_THAT(s.text, HasSubstr("rank 0 is late: it has made no call yet"));
      EXPECT_THAT(s.text, HasSubstr("rank 2 is late: it has been in all_reduce"));
    }
  }
}

TEST(Diagnosis, SaysWhoseRecordsAreNotThere) {
  Job job(3);
  job.everybody(1);
  static_cast<void>(job.call(0, 2, reduce_of(4)));
  job.records[1].page.reset();
  const Diagnosis d = job.look();
  EXPECT_EQ(d.stuck.at(0).cause, Cause::Unknown);
  EXPECT_EQ(d.stuck.at(0).blamed, 1);
  EXPECT_THAT(d.ranks[1].text, HasSubstr("no records"));
}

/// A message waits for one rank, whatever others do.
TEST(Diagnosis, LooksAtTheOtherEndOfAMessage) {
  Job job(3);
  job.everybody(1);
  const Fingerprint receive = fingerprint_of({.collective = Collective::Recv, .dtype = DType::U8, .count = 0});
  static_cast<void>(job.call(0, 1, receive, kWorld, 2));
  job.records[1].state = '\0';
  const StuckCall s = job.look().stuck.at(0);
  EXPECT_EQ(s.cause, Cause::NotCalled);
  EXPECT_EQ(s.blamed, 2);
  EXPECT_THAT(s.call, HasSubstr("recv from rank 2"));
}

/// Long after the end: those whose calls failed have seen another one die.
TEST(Diagnosis, JudgesAJobThatHasEnded) {
  Job job(3);
  job.everybody(1);
  static_cast<void>(job.call(1, 2, reduce_of(4)));
  for (const std::size_t r : {0U, 2U}) job.call(r, 2, reduce_of(4)).complete(Code::PeerLost);
  for (RankRecords& of : job.records) of.state = '\0';
  const Diagnosis d = diagnose(job.records, last_moment(job.records), 0);
  ASSERT_EQ(d.stuck.size(), 1U);
  EXPECT_EQ(d.stuck[0].cause, Cause::Dead);
  EXPECT_EQ(d.stuck[0].blamed, 1);
  EXPECT_THAT(d.stuck[0].waiting, ElementsAre(0, 2));
}

/// All were ended by the same hand: what they waited in is told, and nobody is blamed.
TEST(Diagnosis, BlamesNobody_WhereAllWereEndedAtOnce) {
  Job job(2);
  for (const std::size_t r : {0U, 1U}) static_cast<void>(job.call(r, 1, reduce_of(4)));
  for (RankRecords& of : job.records) of.state = '\0';
  const Diagnosis d = diagnose(job.records, last_moment(job.records), 0);
  ASSERT_EQ(d.stuck.size(), 1U);
  EXPECT_EQ(d.stuck[0].cause, Cause::OnItsWay);
  EXPECT_EQ(d.stuck[0].blamed, -1);
}

}  // namespace
}  // namespace sinew
