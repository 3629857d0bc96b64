#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/sharded_stages/unit_order_of.hpp>

#include "../pipeline/refusals.hpp"

namespace sinew::parallel {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

const StageUnits kTwoStages{{0, {"a", "b"}}, {1, {"c"}}};

TEST(UnitOrderOf, TakesUnitsForwardAndGradientsBackward) {
  const UnitOrder order = unit_order_of(with_sharding(looped_breadth_first(1, 1, 2), 1), 0, kTwoStages);
  EXPECT_EQ(to_string(order.training),
            "unshard a, unshard b, use a, use b, reshard a, reshard b, "
            "unshard c, use c, add gradients c, reduce c, reshard c, "
            "unshard a, unshard b, use b, use a, add gradients b, add gradients a, reduce b, reduce a, "
            "reshard a, reshard b");
  EXPECT_EQ(to_string(order.evaluation),
            "unshard a, unshard b, use a, use b, reshard a, reshard b, unshard c, use c, reshard c");
}

TEST(UnitOrderOf, GathersEachStageOnce_WhereTheScheduleSaysNothing) {
  const UnitOrder order = unit_order_of(interleaved(1, 3, 2), 0, kTwoStages);
  EXPECT_EQ(to_string(order.training),
            "unshard a, unshard b, unshard c, use a, use b, use c, add gradients c, add gradients b, add gradients a, "
            "reduce c, reshard c, reduce b, reduce a, reshard a, reshard b");
}

TEST(UnitOrderOf, AddsGradientsAgainAfterEachReduce) {
  const UnitOrder order =
      unit_order_of(with_reduce(zero_bubble_h1(1, 2), ReduceEvery::MicroBatch), 0, StageUnits{{0, {"a"}}});
  EXPECT_EQ(to_string(order.training), "add gradients a, reduce a, add gradients a, reduce a");
  EXPECT_TRUE(reduces_again(order));
}

TEST(UnitOrderOf, TakesUnitsInTurn_OneAheadOfItsUse) {
  const UnitOrder order = unit_order_of(with_sharding_of_passes(gpipe(1, 1)), 0, {{0, {"a", "outside", "b", "c"}}},
                                        UnitGathers::ByUnit, {"outside"});
  EXPECT_EQ(to_string(order.training),
            "unshard outside, unshard a, unshard b, use outside, use a, reshard a, unshard c, use b, reshard b, use c, "
            "reshard c, reshard outside, "
            "unshard outside, unshard c, unshard b, use outside, add gradients outside, "
            "use c, add gradients c, reduce c, reshard c, unshard a, use b, add gradients b, reduce b, reshard b, "
            "use a, add gradients a, reduce a, reshard a, reduce outside, reshard outside");
  EXPECT_EQ(to_string(order.evaluation),
            "unshard outside, unshard a, unshard b, use outside, use a, reshard a, unshard c, use b, reshard b, use c, "
            "reshard c, reshard outside");
}

TEST(UnitOrderOf, RefusesWhatDoesNotFit) {
  const PipelineSchedule two = with_messages(gpipe(2, 1));
  EXPECT_THAT(refusal_of([&] {
                (void)unit_order_of(two, 0, {{1, {"a"}}});
              }),
              HasSubstr("units of stage 1, expected a stage that 'gpipe' has on rank 0"));
  EXPECT_THAT(refusal_of([&] {
                (void)unit_order_of(interleaved(1, 1, 2), 0, {{0, {"a"}}, {1, {"a"}}});
              }),
              HasSubstr("unit 'a' belongs to stage 0 and to stage 1, expected one"));
  const PipelineSchedule half = from_csv("0UNSHARD,0F0,0B0,0RESHARD\n", "half");
  EXPECT_THAT(refusal_of([&] { (void)unit_order_of(half, 0, {{0, {"a"}}}); }), HasSubstr("has Unshard and no Reduce"));
}

TEST(StageBytes, AreThoseThatTheRowHasForAPartOfAStep) {
  const std::vector<DataParameter> parameters{
      {.path = "w", .dtype = DType::BF16, .elements = 100, .unit = "u", .gradient = DType::F32}};
  EXPECT_EQ(stage_bytes(parameters, data_row("zero3", {"dp"}), 4), (StageBytes{200, 400, 100}));
  EXPECT_EQ(stage_bytes(parameters, data_row("zero2", {"dp"}), 4), (StageBytes{0, 400, 100}));
  EXPECT_EQ(stage_bytes(parameters, data_row("zero1", {"dp"}), 4), StageBytes{});
}

TEST(UnitBytes, AreThoseOfTwoUnitsThatFollowEachOther) {
  std::vector<DataParameter> parameters;
  for (const auto& [unit, elements] : {std::pair("a", 10), {"b", 10}, {"outside", 100}, {"c", 30}, {"d", 5}})
    parameters.push_back({.path = unit, .dtype = DType::F64, .elements = elements, .unit = unit});
  EXPECT_EQ(unit_bytes(parameters, data_row("zero3", {"dp"}), 1, {"outside"}).parameters, 8 * (100 + 10 + 30));
}

}  // namespace
}  // namespace sinew::parallel
