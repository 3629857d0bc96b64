#include <gtest/gtest.h>

#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;

/// Everything that differs by operator or root is covered on 1..64 ranks.
class VerifierAtScaleOn : public ::testing::TestWithParam<int> {};

TEST_P(VerifierAtScaleOn, AcceptsEveryAlgorithm) {
  const int ranks = GetParam();
  for (const Algorithm& a : all_algorithms()) {
    const ReduceOp op = reduces(a.collective) ? ReduceOp::Average : ReduceOp::Sum;
    const CollectiveDesc desc = test::desc_of(a.collective, op, has_root(a.collective) ? ranks / 3 : 0);
    if (a.collective != plain_form(a.collective) || !a.supports(desc, ranks).ok) continue;
    for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::Mixed}) {
      const ScheduleVerdict verdict = verify(Recipe(a).build_all(desc, test::in_place(placing, ranks)));
      EXPECT_TRUE(verdict.ok) << test::label(a, desc, ranks, placing) << ": " << verdict.reason;
    }
  }
}

TEST_P(VerifierAtScaleOn, AcceptsTheOrderOfThoseThatSayItIsCanonical) {
  const int ranks = GetParam();
  for (const Algorithm& a : all_algorithms()) {
    if (!reduces(a.collective) || a.collective != plain_form(a.collective)) continue;
    CollectiveDesc desc = test::desc_of(a.collective, ReduceOp::Sum, has_root(a.collective) ? ranks / 3 : 0);
    desc.dtype = DType::F32;
    desc.determinism = Determinism::Reproducible;
    if (!a.supports(desc, ranks).ok) continue;
    const ScheduleVerdict verdict = verify(Recipe(a).build_all(desc, test::in_place(PlacingKind::Mixed, ranks)));
    EXPECT_TRUE(verdict.ok) << test::label(a, desc, ranks, PlacingKind::Mixed) << ": " << verdict.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, VerifierAtScaleOn, ::testing::Values(65, 96, 127, 129, 191, 255, 256, 257, 384, 512));

}  // namespace
}  // namespace sinew
