#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fakes/interpreter.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/sanitized.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using fakes::Interpreter;
using test::PlacingKind;
using ::testing::HasSubstr;

constexpr Codec kCodec = Codec::Int8;

CollectiveDesc coded_desc(Collective collective, ReduceOp op = ReduceOp::Sum) {
  CollectiveDesc desc = test::desc_of(collective, op);
  desc.dtype = DType::F32;
  desc.codec = kCodec;
  return desc;
}

Schedule coded(std::string_view name, Collective collective, int ranks) {
  return Recipe(*find_algorithm(collective, name))
      .build_all(coded_desc(collective), test::in_place(PlacingKind::OutOfPlace, ranks));
}

bool is_coded(const Program& p, Slice s) {
  const auto classes = p.scratch_class.begin() + s.first;
  return s.space == Space::Scratch && std::all_of(classes, classes + s.count, [](auto c) { return (c & kCoded) != 0; });
}

class CodedOn : public ::testing::TestWithParam<int> {};

/// That all ranks end with the same bits is what the verifier proves.
TEST_P(CodedOn, EverySchedule_IsRightAndSendsNothingElse) {
  const int ranks = GetParam();
  int schedules = 0;
  const auto judge = [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    const Schedule schedule = Recipe(a).build_all(desc, test::in_place(placing, ranks));
    const ScheduleVerdict verdict = verify(schedule);
    EXPECT_TRUE(verdict.ok) << test::label(a, desc, ranks, placing) << ": " << verdict.reason;
    for (const Program& p : schedule.programs) {
      for (const Step& s : p.steps) {
        const bool message = s.op == Op::Send || s.op == Op::Recv;
        EXPECT_TRUE(!message || is_coded(p, s.op == Op::Send ? s.a : s.dst)) << test::label(a, desc, ranks, placing);
      }
    }
    ++schedules;
  };
  test::for_each_schedule(ranks, judge, kCodec);
  EXPECT_GE(schedules, 150);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CodedOn, ::testing::Range(1, test::kSanitized ? 10 : 25));
INSTANTIATE_TEST_SUITE_P(Sampled, CodedOn,
                         ::testing::ValuesIn(test::kSanitized ? std::vector{16} : std::vector{31, 32, 48, 63, 64}));

/// Most codings of any rank's contribution to any result: it is 1, the others are 0, and coding doubles.
int most_codings(const Schedule& schedule) {
  int most = 0;
  for (const Program& giver : schedule.programs) {
    Interpreter run(
        schedule, [](std::uint32_t) { return 1; }, [](auto v) { return v; }, 1, [](auto v) { return 2 * v; });
    for (const Program& p : schedule.programs) {
      for (std::uint32_t i = 0; i < p.in_class.size(); ++i)
        run.chunk(p.rank, Space::In, i)[0] = p.rank == giver.rank ? 1 : 0;
    }
    EXPECT_TRUE(run.run());
    for (const Program& p : schedule.programs) {
      for (std::uint32_t i = 0; i < p.out_class.size(); ++i) {
        const auto value = static_cast<std::uint64_t>(run.chunk(p.rank, Space::Out, i)[0]);
        if (value > 0) most = std::max(most, std::countr_zero(value));
      }
    }
  }
  return most;
}

class CodingsOn : public ::testing::TestWithParam<int> {};

/// What the stated bounds of error rest on (core/numeric/codec.hpp).
TEST_P(CodingsOn, AContribution_AreAtMostAsManyAsStated) {
  const int ranks = GetParam();
  const auto judge = [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    if (a.collective != plain_form(a.collective)) return;
    const int most = most_codings(Recipe(a).build_all(desc, test::in_place(placing, ranks)));
    const int stated = a.collective == Collective::AllReduce       ? ranks
                       : a.collective == Collective::ReduceScatter ? ranks - 1
                                                                   : 1;
    EXPECT_LE(most, stated) << test::label(a, desc, ranks, placing);
    if (a.name == "ring") {
      EXPECT_EQ(most, stated) << test::label(a, desc, ranks, placing);
    }
    if (a.name == "direct") {
      EXPECT_EQ(most, 1) << test::label(a, desc, ranks, placing);
    }
  };
  test::for_each_schedule(ranks, judge, kCodec);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CodingsOn, ::testing::Range(2, 12));

void expect_rejected(const Schedule& schedule, const std::string& why) {
  const ScheduleVerdict verdict = verify(schedule);
  EXPECT_FALSE(verdict.ok) << why;
  EXPECT_THAT(verdict.reason, HasSubstr(why));
}

/// The steps with this map, the last first.
Step& last_with(Program& p, ElementMap map) {
  return *std::ranges::find(p.steps.rbegin(), p.steps.rend(), map, &Step::map);
}

TEST(CodedVerifier, RejectsAnOwnerThatKeepsWhatItHasNotSent) {
  Schedule s = coded("ring", Collective::AllGather, 3);
  Step& own = s.programs[1].steps.back();  // decodes what it has encoded, in the end
  ASSERT_EQ(own.map, ElementMap::Decode);
  own = {.op = Op::Copy, .a = {Space::In, 0, 1}, .dst = own.dst, .deps = own.deps};
  expect_rejected(s, "is coded otherwise than on rank 0");
}

TEST(CodedVerifier, RejectsWhatIsCodedTwice) {
  Schedule s = coded("ring", Collective::AllReduce, 3);
  Program& p = s.programs[0];  // what has come last but one goes on, here encoded anew from what it decodes to
  const auto send = std::ranges::find(p.steps.rbegin(), p.steps.rend(), Op::Send, &Step::op).base() - 1;
  const auto decodes = std::ranges::find_if(p.steps.begin(), send, [&](const Step& d) {
    return d.op == Op::Copy && d.map == ElementMap::Decode && d.a.first == send->a.first;
  });
  ASSERT_NE(decodes, send);
  const Slice again{Space::Scratch, static_cast<std::uint32_t>(p.scratch_class.size()), 1};
  p.scratch_class.push_back(p.scratch_class[send->a.first]);
  send->a = again;
  p.steps.insert(send, {.op = Op::Copy, .map = ElementMap::Encode, .a = decodes->dst, .dst = again});
  for (Step& step : p.steps) step.deps = {};
  p.dependencies.clear();
  derive_dependencies(Collective::AllReduce, p);
  expect_rejected(s, "was coded twice on its way");
}

TEST(CodedVerifier, RejectsCodedChunks_WhereTheCallHasNoCodec) {
  Schedule s = coded("ring", Collective::AllReduce, 3);
  s.desc.codec = Codec::None;
  expect_rejected(s, "the call has no codec");
}

TEST(CodedVerifier, RejectsSumsOfCodes) {
  Schedule s = coded("direct", Collective::AllReduce, 3);
  last_with(s.programs[0], ElementMap::Encode).map = ElementMap::Scale;
  expect_rejected(s, "uses coded chunks otherwise than to code, or to move them");
}

TEST(CodedVerifier, RejectsRunsOfCodedChunksAndOthers) {
  Schedule s = coded("halving_doubling", Collective::ReduceScatter, 8);
  Program& p = s.programs[0];
  Step& send = *std::ranges::find(p.steps, Op::Send, &Step::op);
  ASSERT_GT(send.a.count, 1u);
  ASSERT_FALSE(is_coded(p, {Space::Scratch, send.a.first - 1, 1}));  // where sums wait
  --send.a.first;
  expect_rejected(s, "moves coded chunks and others in one run");
}

TEST(Coded, RecursiveDoubling_IsRefusedWhereOthersWouldHaveOtherBits) {
  const Algorithm& a = *find_algorithm(Collective::AllReduce, "recursive_doubling");
  CollectiveDesc desc = coded_desc(Collective::AllReduce);
  EXPECT_TRUE(a.supports(desc, 8).ok);
  EXPECT_THAT(a.supports(desc, 6).reason, HasSubstr("needs a power of two of ranks, not 6"));
  expect_rejected(Recipe(a).build_all(desc, test::in_place(PlacingKind::OutOfPlace, 3)), "than on rank 0");
  desc.codec = Codec::None;
  EXPECT_TRUE(a.supports(desc, 6).ok);
}

}  // namespace
}  // namespace sinew
