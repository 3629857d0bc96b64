#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/schedule/builder.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/sanitized.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::desc_of;
using test::PlacingKind;
using ::testing::HasSubstr;

Schedule schedule_of(std::string_view name, Collective collective, int ranks, ReduceOp op = ReduceOp::Sum,
                     PlacingKind placing = PlacingKind::OutOfPlace) {
  return Recipe(*find_algorithm(collective, name)).build_all(desc_of(collective, op), test::in_place(placing, ranks));
}

/// The verdict is no, about this rank and step (-1: none), and its reason says why.
void expect_rejected(const Schedule& schedule, int rank, int step, const std::string& why) {
  const ScheduleVerdict verdict = verify(schedule);
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.rank, rank) << verdict.reason;
  EXPECT_EQ(verdict.step, step) << verdict.reason;
  EXPECT_THAT(verdict.reason, HasSubstr(why));
}

class VerifierOn : public ::testing::TestWithParam<int> {};

TEST_P(VerifierOn, AcceptsEveryAlgorithm_OutOfPlaceInPlaceAndMixed) {
  const int ranks = GetParam();
  test::for_each_schedule(ranks, [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    const ScheduleVerdict verdict = verify(Recipe(a).build_all(desc, test::in_place(placing, ranks)));
    EXPECT_TRUE(verdict.ok) << test::label(a, desc, ranks, placing) << ": " << verdict.reason;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, VerifierOn, ::testing::Range(1, test::kSanitized ? 14 : 65));

TEST(Verifier, SpeaksInOneSentence) {
  Schedule s = schedule_of("ring", Collective::AllReduce, 3);
  s.programs[2].steps[2].deps.count = 0;
  EXPECT_EQ(verify(s).reason,
            "rank 2, step 2 (send out[1] as message 1 to rank 0): may run at the same time as step 1 (recv out[1] = "
            "in[1] + message 0 from rank 1), on the same memory");
}

TEST(Verifier, RejectsADeadlockWithoutBuffers) {
  // Each rank sends its buffer and receives into it; the receive has to wait for the send, and so for the other's.
  Schedule s{desc_of(Collective::AllReduce), {}};
  for (int rank = 0; rank < 2; ++rank) {
    ProgramBuilder b(s.desc, rank, 2, true);
    b.send(1 - rank, b.in());
    b.recv_reduce(1 - rank, b.out(), b.in());
    s.programs.push_back(b.build());
  }
  expect_rejected(s, 0, 0,
                  "waits forever: step 1 (recv out[0] = in[0] + message 0 from rank 0) of rank 1 can never start");
}

TEST(Verifier, RejectsARaceThatOnlyExistsInPlace) {
  Schedule s = schedule_of("direct", Collective::AllReduce, 3);
  for (Program& p : s.programs) p.in_place = true;  // the dependencies are those of two separate buffers
  expect_rejected(s, 0, 5, "may run at the same time as step 0");
}

TEST(Verifier, RejectsAnotherOrderOfSummation) {
  Schedule s = schedule_of("direct", Collective::AllReduce, 3);
  Program& p = s.programs[1];
  const Slice x0 = p.steps[4].a;
  const Slice x2 = p.steps[5].b;
  p.steps[4].a = p.steps[4].dst = p.steps[5].a = x2;  // x0 + x1, then + x2 becomes x2 + x1, then + x0
  p.steps[5].b = x0;
  for (Step& step : p.steps) step.deps = {};
  derive_dependencies(s.desc.collective, p);
  expect_rejected(s, 1, -1, "in the end out[0] is summed up in another order than on rank 0");
}

TEST(Verifier, RejectsAContributionTwice) {
  Schedule s = schedule_of("direct", Collective::AllReduce, 2);
  for (Program& p : s.programs) p.steps.back().b = p.steps.back().a;
  expect_rejected(s, 0, -1, "out[0] holds the contribution of rank 0 twice");
}

TEST(Verifier, RejectsAMissingContribution) {
  Schedule s = schedule_of("direct", Collective::AllReduce, 3);
  Program& p = s.programs[1];
  p.steps.back() = {.op = Op::Copy, .a = p.steps.back().a, .dst = p.steps.back().dst, .deps = p.steps.back().deps};
  expect_rejected(s, 1, -1, "holds 2 contributions of 3 ranks");
}

TEST(Verifier, RejectsAnAverageThatIsNotScaledOnce) {
  Schedule none = schedule_of("ring", Collective::AllReduce, 2, ReduceOp::Average);
  for (Step& step : none.programs[0].steps) step.map = ElementMap::None;
  expect_rejected(none, 0, -1, "is not scaled at the end");
  Schedule twice = schedule_of("direct", Collective::AllReduce, 3, ReduceOp::Average);
  twice.programs[0].steps[4].map = ElementMap::Scale;
  expect_rejected(twice, 0, -1, "is scaled or encoded where it should not be");
}

TEST(Verifier, RejectsAContributionThatIsNotPremultiplied) {
  Schedule s = schedule_of("direct", Collective::AllReduce, 2, ReduceOp::PreMulSum);
  s.programs[0].steps[0].map = ElementMap::None;
  expect_rejected(s, 0, -1, "holds a contribution that was not scaled");
}

TEST(Verifier, RejectsEndsThatDisagree) {
  Schedule extra = schedule_of("ring", Collective::AllGather, 3);
  extra.programs[1].steps.push_back({.op = Op::Send, .a = {Space::In, 0, 1}, .peer = 2, .match = 2});
  expect_rejected(extra, 2, -1, "takes 2 messages from rank 1, which sends 3");
  Schedule number = schedule_of("ring", Collective::AllGather, 3);
  number.programs[1].steps[1].match = 5;
  expect_rejected(number, 1, 1, "is message 0 of the two ranks");
  Schedule other = schedule_of("ring", Collective::AllGather, 3);
  other.programs[1].steps[2].dst.first = 2;
  expect_rejected(other, 1, 2,
                  "takes chunks of other classes than step 1 (send in[0] as message 0 to rank 1) of rank 0");
}

TEST(Verifier, RejectsWhatIsNeverWritten) {
  Schedule s = schedule_of("ring", Collective::AllGather, 2);
  s.programs[1].steps.erase(s.programs[1].steps.begin());  // the copy of its own chunk
  for (Step& step : s.programs[1].steps) step.deps = {};
  expect_rejected(s, 1, -1, "out[1] is never written");
  s.programs[1].steps[0].a = {Space::Out, 1, 1};
  expect_rejected(s, 0, 2, "takes out[1] of rank 1, where nothing was written");
}

TEST(Verifier, RejectsAResultThatIsNotTheInput) {
  Schedule s = schedule_of("ring", Collective::AllGather, 2);
  s.programs[1].steps[0].map = ElementMap::Scale;
  expect_rejected(s, 1, -1, "out[1] holds a sum or a scaled value, not in[0] of rank 1");
}

TEST(Verifier, RejectsABarrierThatMissesARank) {
  Schedule s = schedule_of("dissemination", Collective::Barrier, 3);
  for (Program& p : s.programs) {
    p.steps[3].a = {Space::Out, 1, 1};  // passes on what it was given, not its own
    derive_dependencies(Collective::Barrier, p);
  }
  expect_rejected(s, 0, -1, "out[2] holds a token that another chunk holds, too");
}

TEST(Verifier, RejectsStepsThatMakeNoSense) {
  const Schedule right = schedule_of("direct", Collective::AllReduce, 2);  // send, recv, reduce
  const auto with = [&](int step, const std::function<void(Step&)>& change) {
    Schedule s = right;
    change(s.programs[1].steps[static_cast<std::size_t>(step)]);
    return s;
  };
  expect_rejected(with(0, [](Step& s) { s.peer = 2; }), 1, 0, "has no such peer");
  expect_rejected(with(0, [](Step& s) { s.peer = 1; }), 1, 0, "has no such peer");
  expect_rejected(with(0, [](Step& s) { s.a.first = 1; }), 1, 0, "names a chunk that is not there");
  expect_rejected(with(0, [](Step& s) { s.a.first = 0xffffffff; }), 1, 0, "names a chunk that is not there");
  expect_rejected(with(0, [](Step& s) { s.dst = s.a; }), 1, 0, "has a slice too many or too few");
  expect_rejected(with(0, [](Step& s) { s.map = ElementMap::Scale; }), 1, 0, "element map");
  expect_rejected(with(1, [](Step& s) { s.dst = {Space::In, 0, 1}; }), 1, 1, "writes in[0], an input");
  expect_rejected(with(2, [](Step& s) { s.deps.count = 9; }), 1, 2, "names dependencies that are not there");
  Schedule later = right;
  later.programs[1].dependencies[0] = 2;
  expect_rejected(later, 1, 2, "waits for step 2, which does not come before it");
}

TEST(Verifier, RejectsRunsOfChunksThatMayBeCut) {
  Schedule s = schedule_of("recursive_doubling", Collective::AllGather, 4);
  s.programs[2].whole = false;
  expect_rejected(s, 2, -1, "the chunks are cut, unlike rank 0's");
  for (Program& p : s.programs) p.whole = false;
  expect_rejected(s, 0, 3, "moves a run of chunks that may be cut");
}

TEST(Verifier, RejectsProgramsOfAnotherCollective) {
  Schedule s = schedule_of("ring", Collective::AllReduce, 3);
  s.programs[1].out_class.pop_back();
  expect_rejected(s, 1, -1, "the chunks are not those of the collective");
  Schedule rank = schedule_of("ring", Collective::AllReduce, 3);
  std::swap(rank.programs[0], rank.programs[1]);
  expect_rejected(rank, 0, -1, "the program is for rank 1 of 3");
  Schedule root = schedule_of("binomial", Collective::Broadcast, 3);
  root.desc.root = 3;
  expect_rejected(root, -1, -1, "root 3 is not one of 3 ranks");
  expect_rejected(Schedule{}, -1, -1, "no programs");
}

}  // namespace
}  // namespace sinew
