#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/data_parallel/plan/unit_order.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using enum UnitActionKind;
using sinew::test::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<DataParameter> kTwo{{.path = "a.w", .elements = 100, .unit = "a"},
                                      {.path = "b.w", .elements = 100, .unit = "b"}};
const std::vector<UnitAction> kRight{
    {Unshard, "a"}, {Unshard, "b"}, {Use, "a"}, {Use, "b"},          {Reshard, "a"}, {AddGradients, "b"}, {Reduce, "b"},
    {Reshard, "b"}, {Unshard, "a"}, {Use, "a"}, {AddGradients, "a"}, {Reduce, "a"},  {Reshard, "a"}};

std::vector<std::string> wrong(std::vector<UnitAction> training, const char* row = "zero3",
                               std::vector<UnitAction> evaluation = {}) {
  return violations_of({std::move(training), std::move(evaluation)}, kTwo, data_row(row, {"dp"}));
}

TEST(UnitOrder, IsJudgedWithTheRow) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) EXPECT_THAT(wrong(kRight, row), IsEmpty());
  const std::vector<UnitAction> sums{{AddGradients, "a"}, {Reduce, "a"}, {AddGradients, "b"}, {Reduce, "b"}};
  EXPECT_THAT(wrong(sums, "zero2"), IsEmpty());
  EXPECT_THAT(wrong(sums, "zero3"), Contains(HasSubstr("unit 'a' computes while its parameters are sharded")));
  std::vector<UnitAction> twice = sums;
  twice.insert(twice.end(), {{AddGradients, "a"}, {Reduce, "a"}});
  EXPECT_THAT(wrong(twice, "zero2"), IsEmpty());
  EXPECT_THAT(
      wrong(twice, "zero1"),
      ElementsAre("unit 'a' is reduced more than once in a step, expected one Reduce, because row 'zero1' keeps "
                  "whole gradients"));
}

TEST(UnitOrder, SaysWhatIsWrong) {
  EXPECT_THAT(wrong({}), Contains(HasSubstr("unit 'a' is never reduced")));
  EXPECT_THAT(wrong({{Unshard, "c"}}), Contains(HasSubstr("names unit 'c', expected one of a, b")));
  EXPECT_THAT(wrong({{Unshard, "a"}, {Unshard, "a"}}), Contains(HasSubstr("'a' is unsharded twice")));
  EXPECT_THAT(wrong({{Unshard, "a"}}), Contains(HasSubstr("'a' is unsharded at the end of the training")));
  EXPECT_THAT(wrong({{Reshard, "a"}}), Contains(HasSubstr("'a' is resharded, expected an Unshard before")));
  EXPECT_THAT(wrong({{Reduce, "a"}}), Contains(HasSubstr("'a' is reduced without new gradients")));
  EXPECT_THAT(wrong({{Unshard, "a"}, {AddGradients, "a"}, {Reshard, "a"}}),
              Contains(HasSubstr("gradients of unit 'a' are added up after its last Reduce")));
  EXPECT_THAT(wrong(kRight, "zero3", {{Reduce, "a"}}), Contains(HasSubstr("an evaluation has 'reduce a'")));
}

TEST(UnitOrder, StandsAlone) {
  DataOptions options{.gathered_bytes = 5, .order = {kRight, {}}};
  EXPECT_THAT(complaint([&] { (void)plan_step(kTwo, data_row("zero3", {"dp"}), options); }),
              HasSubstr("gathered_bytes beside an order of units"));
}

TEST(ScheduledStep, GathersAndSumsInTheOrderOfTheSchedule) {
  const StepPlan plan = plan_step(kTwo, data_row("zero3", {"dp"}), {.order = {kRight, {}}});
  EXPECT_EQ(check(plan.graph), "");
  EXPECT_EQ(plan.graph.to_string(),
            "signal unshard a: a.w\n"
            "all_gather 0 over dp: a.w (400B)\n"
            "signal unshard b: b.w\n"
            "all_gather 1 over dp: b.w (400B)\n"
            "wait 0\n"
            "gate use a: reads a.w\n"
            "wait 1\n"
            "gate use b: reads b.w\n"
            "signal reshard a: a.w\n"
            "free a.w (400B)\n"
            "gate gradients b: reads b.w gradient\n"
            "signal reduce b: b.w gradient\n"
            "reduce_scatter 2 over dp: b.w gradient (400B)\n"
            "wait 2\n"
            "free b.w gradient (400B)\n"
            "signal reshard b: b.w\n"
            "free b.w (400B)\n"
            "signal unshard a: a.w\n"
            "all_gather 3 over dp: a.w (400B)\n"
            "wait 3\n"
            "gate use a: reads a.w\n"
            "gate gradients a: reads a.w gradient\n"
            "signal reduce a: a.w gradient\n"
            "reduce_scatter 4 over dp: a.w gradient (400B)\n"
            "wait 4\n"
            "free a.w gradient (400B)\n"
            "signal reshard a: a.w\n"
            "free a.w (400B)\n"
            "gate optimizer: reads a.w gradient, b.w gradient\n"
            "signal updated: a.w, b.w\n");
}

}  // namespace
}  // namespace sinew::parallel
