#include <gtest/gtest.h>

#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/sanitized.hpp>
#include <support/schedule_mutants.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;

class MutationOn : public ::testing::TestWithParam<int> {};

void expect_none_survives(int ranks, Codec codec) {
  int mutants = 0;
  int survivors = 0;
  const auto judge = [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    if (a.collective != plain_form(a.collective)) return;
    const Schedule schedule = Recipe(a).build_all(desc, test::in_place(placing, ranks));
    test::Mutants(schedule, [&](const Schedule& mutant, const std::string& what) {
      ++mutants;
      const ScheduleVerdict verdict = verify(mutant);
      if (!verdict.ok && !verdict.reason.empty()) return;
      if (++survivors <= 40) ADD_FAILURE() << test::label(a, desc, ranks, placing) << ", " << what;
    }).each();
  };
  test::for_each_schedule(ranks, judge, codec);
  EXPECT_EQ(survivors, 0);
  EXPECT_GT(mutants, 1000);
  ::testing::Test::RecordProperty("mutants", mutants);
}

TEST_P(MutationOn, VerifierRejectsEveryMutant) { expect_none_survives(GetParam(), Codec::None); }

INSTANTIATE_TEST_SUITE_P(Ranks, MutationOn, ::testing::Range(2, test::kSanitized ? 4 : 8));

/// Their programs are twice as long, and mutants of these cost the square of that.
class CodedMutationOn : public ::testing::TestWithParam<int> {};

TEST_P(CodedMutationOn, VerifierRejectsEveryMutant) { expect_none_survives(GetParam(), Codec::Int8); }

INSTANTIATE_TEST_SUITE_P(Ranks, CodedMutationOn, ::testing::Range(2, test::kSanitized ? 3 : 6));

}  // namespace
}  // namespace sinew
