#include <string>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/surviving_job.hpp>

#include "small_engine.hpp"

namespace sinew::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

EngineFacts any_engine() {
  EngineFacts engine = test::small_engine();
  engine.axes = {"dp", "tp", "pp", "cp"};
  engine.most_tp = engine.most_pp = engine.most_cp = 8;
  return engine;
}

TEST(SurvivingJob, SharesTheLargestBatchThatDividesAmongThoseThatAreLeft) {
  JobConfig asked;
  asked.global_batch = 16;
  asked.layout.dp = 4;
  const SurvivingJob three = surviving_job(3, asked, any_engine());
  EXPECT_EQ(three.ranks, 3);
  EXPECT_EQ(three.config.global_batch, 15);
  const SurvivingJob two = surviving_job(2, asked, any_engine());
  EXPECT_EQ(two.ranks, 2);
  EXPECT_EQ(two.config.global_batch, 16);
  asked.micro_batches = 2;
  EXPECT_EQ(surviving_job(3, asked, any_engine()).config.global_batch, 12);
}

TEST(SurvivingJob, KeepsWhatLayersAreCutInto_AndLeavesRanksOut) {
  JobConfig asked;
  asked.layout.tp = 2;
  const SurvivingJob seven = surviving_job(7, asked, any_engine());
  EXPECT_EQ(seven.ranks, 6);
  EXPECT_EQ(seven.config.layout.tp, 2);
  EXPECT_EQ(seven.config.global_batch, 15);
  asked.layout.pp = 2;
  asked.micro_batches = 4;
  EXPECT_EQ(surviving_job(7, asked, any_engine()).ranks, 4);
}

TEST(SurvivingJob, HasAsManyReplicasAsDivideTheRanks) {
  JobConfig asked;
  asked.zero = 3;
  asked.replicas = 4;
  EXPECT_EQ(surviving_job(8, asked, any_engine()).config.replicas, 4);
  EXPECT_EQ(surviving_job(6, asked, any_engine()).config.replicas, 2);
  EXPECT_EQ(surviving_job(5, asked, any_engine()).config.replicas, 1);
}

TEST(SurvivingJob, SaysWhichRulesAreBroken_WhereNoNumberOfRanksCan) {
  JobConfig asked;
  asked.layout.tp = 4;
  try {
    static_cast<void>(surviving_job(3, asked, any_engine()));
    FAIL() << "three ranks cannot cut layers into four";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("job of 3 ranks"), HasSubstr("tp 4")));
  }
}

TEST(SurvivingJob, KnowsWhereAnyRankCanGoOnAlone) {
  JobConfig config;
  config.layout.cp = 2;
  EXPECT_TRUE(is_held_by_each(config));
  for (int LayoutSizes::*axis : {&LayoutSizes::tp, &LayoutSizes::pp, &LayoutSizes::ep, &LayoutSizes::etp}) {
    JobConfig cut;
    cut.layout.*axis = 2;
    EXPECT_FALSE(is_held_by_each(cut));
  }
  for (const int zero : {1, 2, 3}) {
    config.zero = zero;
    EXPECT_FALSE(is_held_by_each(config)) << zero;
  }
}

}  // namespace
}  // namespace sinew::parallel
