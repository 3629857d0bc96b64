#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/schedule/builder.hpp>
#include <sinew/collectives/schedule/sized_messages.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/schedule_mutants.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;
using ::testing::HasSubstr;

const CollectiveDesc kCall = test::desc_of(Collective::AllToAllV);

Schedule hierarchical(const std::vector<int>& hosts, PlacingKind placing = PlacingKind::OutOfPlace) {
  const HierarchicalAlgorithm how{{{hosts}}, "direct", "direct"};
  return Recipe(how).build_all(kCall, test::in_place(placing, static_cast<int>(hosts.size())));
}

/// Calls visit(program, step, k) for each dependency k of a step that is only there because of a size: the steps touch
/// no memory of each other's.
template <class Visit>
void for_each_size_dependency(const Schedule& schedule, Visit&& visit) {
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    const Program& p = schedule.programs[rank];
    for (std::uint32_t i = 0; i < p.steps.size(); ++i) {
      for (std::uint32_t k = 0; k < p.steps[i].deps.count; ++k) {
        const Step& before = p.steps[p.dependencies[p.steps[i].deps.first + k]];
        const Slice a = p.steps[i].a;
        const bool reads = a.space == Space::Scratch && before.dst.space == Space::Scratch &&
                           a.first < before.dst.first + before.dst.count && before.dst.first < a.first + a.count;
        if (before.op == Op::Recv && p.steps[i].op == Op::Copy && !reads) visit(rank, i, k);
      }
    }
  }
}

TEST(SizedMessages, SayWhoTellsEachSize) {
  const Schedule schedule = hierarchical({0, 0, 1, 1});
  const Program& p = schedule.programs[0];  // passes on what rank 1 has for rank 2
  ASSERT_TRUE(p.sized);
  const SizedMessages messages(p);
  int told = 0;
  for (std::size_t c = 0; c < p.scratch_class.size(); ++c) {
    ASSERT_NE(messages.run_of[c], SizedMessages::kNone);
    if (messages.told_by[c] == SizedMessages::kKnown) continue;
    ++told;
    EXPECT_EQ(p.scratch_class[c], block_class(1, 2, 4)) << "the only block that rank 0 passes on";
    const Step& teller = p.steps[messages.told_by[c]];
    EXPECT_EQ(teller.op, Op::Recv);
    EXPECT_EQ(teller.peer, 1);
  }
  EXPECT_EQ(told, 2) << "where the block comes, and where it goes on";
}

TEST(SizedMessages, HaveHeadsOfEqualLengthAtBothEnds) {
  const Schedule schedule = hierarchical({0, 0, 0, 1, 1, 2});
  std::uint64_t heads = 0;
  const SizedMessages messages(schedule.programs[0]);
  for (const SizedMessages::Run& run : messages.runs) {
    EXPECT_EQ(run.head_at, heads);
    EXPECT_EQ(run.head_bytes(), SizedMessages::kHeadBytes);
    heads += run.head_bytes();
  }
  EXPECT_EQ(messages.head_bytes(), heads);
  EXPECT_EQ((SizedMessages::Run{0, 1000}.head_bytes()), 8000U) << "all sizes are in the head";
}

TEST(SizedMessages, AreTheOnlyOnesOfAProgramThatPassesOnUnknownSizes) {
  Schedule schedule = hierarchical({0, 0, 1, 1});
  EXPECT_TRUE(verify(schedule).ok) << verify(schedule).reason;
  for (Program& p : schedule.programs) p.sized = false;
  EXPECT_THAT(verify(schedule).reason, HasSubstr("nobody tells the size of scratch["));
}

TEST(Verify, RejectsAStepThatDoesNotWaitForASize) {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 0, 1, 1, 1}, {0, 1, 0, 1, 0}}) {
    const Schedule right = hierarchical(hosts);
    ASSERT_TRUE(verify(right).ok) << verify(right).reason;
    int dropped = 0;
    for_each_size_dependency(right, [&](std::size_t rank, std::uint32_t step, std::uint32_t k) {
      Schedule wrong = right;
      Program& p = wrong.programs[rank];
      DepRange& deps = p.steps[step].deps;
      std::swap(p.dependencies[deps.first + k], p.dependencies[deps.first + deps.count - 1]);
      --deps.count;
      ++dropped;
      EXPECT_THAT(verify(wrong).reason, HasSubstr("which tells it a size")) << "rank " << rank << ", step " << step;
    });
    EXPECT_GT(dropped, 0);
  }
}

TEST(Verify, RejectsSizedMessagesThatAreNone) {
  const Schedule right = hierarchical({0, 0, 1, 1});
  Schedule wrong = right;
  wrong.programs[1].sized = false;
  EXPECT_THAT(verify(wrong).reason, HasSubstr("unlike rank 0's"));
  wrong = right;
  for (Program& p : wrong.programs) p.whole = false;
  EXPECT_FALSE(verify(wrong).ok);
  wrong = right;
  wrong.programs[0].scratch_class.push_back(block_class(0, 0, 4));
  EXPECT_THAT(verify(wrong).reason, HasSubstr("is in no message"));
  wrong = right;
  wrong.programs[0].scratch_class.push_back(block_class(3, 3, 4));
  EXPECT_FALSE(verify(wrong).ok);
  wrong = right;
  wrong.desc.collective = Collective::AllToAll;
  EXPECT_THAT(verify(wrong).reason, HasSubstr("counts are not local"));
  wrong = right;
  Step& send = *std::ranges::find(wrong.programs[0].steps, Op::Send, &Step::op);
  send.a = {Space::In, 1, send.a.count};
  EXPECT_FALSE(verify(wrong).ok);
}

/// Two messages have memory of their own each.
TEST(Verify, RejectsACopyFromTwoSizedMessages) {
  Schedule wrong = hierarchical({0, 0, 0, 1, 1, 1});
  for (Program& p : wrong.programs) {
    const SizedMessages messages(p);
    for (Step& s : p.steps) {
      if (s.op != Op::Copy || s.dst.space != Space::Out || s.dst.first + 1 >= p.out_class.size()) continue;
      const SizedMessages::Run& run = messages.run_with(s.a.first);
      if (s.a.space != Space::Scratch || s.a.first + 1 != run.first + run.count) continue;
      s.a.count = s.dst.count = 2;
      EXPECT_FALSE(verify(wrong).ok);
      return;
    }
  }
  FAIL() << "no such copy";
}

/// In a v-form the parts of a rank need not lie side by side.
TEST(Verify, RejectsARunOfPartsInAVForm) {
  const HierarchicalAlgorithm how{{{{0, 0, 1, 1}}}, "direct", "direct"};
  const std::vector<bool> apart(4, false);
  Schedule schedule = Recipe(how).build_all(test::desc_of(Collective::AllToAll), apart);
  ASSERT_TRUE(verify(schedule).ok);
  schedule.desc.collective = Collective::AllToAllV;
  EXPECT_THAT(verify(schedule).reason, HasSubstr("need not lie side by side"));
}

TEST(Verify, RejectsEveryMutantOfAProgramWithSizedMessages) {
  int mutants = 0;
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1, 1}}) {
    for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::InPlace, PlacingKind::Mixed}) {
      const Schedule schedule = hierarchical(hosts, placing);
      test::Mutants(schedule, [&](const Schedule& mutant, const std::string& what) {
        ++mutants;
        EXPECT_FALSE(verify(mutant).ok) << hosts.size() << " ranks, placing " << static_cast<int>(placing) << ", "
                                        << what;
      }).each();
    }
  }
  EXPECT_GT(mutants, 1000);
}

}  // namespace
}  // namespace sinew
