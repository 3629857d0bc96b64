#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/step_graph/check.hpp>

#include "../../step_graph/figures.hpp"

namespace sinew::parallel {
namespace {

using test::figures_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 18;  // of f32

/// Three blocks of two parameters of 1 MiB each.
std::vector<DataParameter> three_blocks() {
  std::vector<DataParameter> all;
  for (const char* block : {"blocks.0", "blocks.1", "blocks.2"}) {
    for (const char* part : {".in.weight", ".out.weight"})
      all.push_back({.path = std::string(block) + part, .elements = kMiB, .unit = block});
  }
  return all;
}

int count(const StepGraph& graph, NodeKind kind) {
  return static_cast<int>(std::ranges::count(graph.nodes, kind, &Node::kind));
}

StepGraph graph_of(const char* row, const DataOptions& options = {}) {
  const std::vector<std::string> axes =
      std::string(row) == "hsdp" ? std::vector<std::string>{"fsdp", "replicas"} : std::vector<std::string>{"dp"};
  const StepPlan plan = plan_step(three_blocks(), data_row(row, axes), options);
  EXPECT_EQ(check(plan.graph), "") << plan.graph.to_string();
  return plan.graph;
}

/// Whole-tensor bytes that travel per step, in parameters' bytes: what theory says of each row.
TEST(StepPlan, MovesWhatTheRowCosts) {
  const std::int64_t bytes = 6 << 20;
  EXPECT_EQ(figures_of(graph_of("ddp")).bytes, bytes);        // all-reduce, twice a half
  EXPECT_EQ(figures_of(graph_of("zero1")).bytes, 2 * bytes);  // reduce-scatter, all-gather
  EXPECT_EQ(figures_of(graph_of("zero2")).bytes, 2 * bytes);
  const std::int64_t last = 2 << 20;                                 // the unit that is not gathered again
  EXPECT_EQ(figures_of(graph_of("zero3")).bytes, 3 * bytes - last);  // all-gather twice, reduce-scatter
  EXPECT_EQ(figures_of(graph_of("hsdp")).bytes, 4 * bytes - last);   // and an all-reduce of the parts
  const DataOptions keeps{.reshard = Reshard::AfterBackward};
  EXPECT_EQ(figures_of(graph_of("zero3", keeps)).bytes, 2 * bytes);
  EXPECT_EQ(figures_of(graph_of("hsdp", keeps)).bytes, 3 * bytes);
}

TEST(StepPlan, GathersAgainFromNear_WhereAPartIsKeptThere) {
  const StepPlan plan = plan_step(three_blocks(), data_row("zero3", {"near-far"}), {.reshard_axes = "near"});
  EXPECT_EQ(check(plan.graph), "") << plan.graph.to_string();
  std::vector<std::string> gathers;
  for (const Node& node : plan.graph.nodes) {
    if (node.kind == NodeKind::AllGather) gathers.push_back(node.axes);
  }
  EXPECT_THAT(gathers, ElementsAre("near-far", "near-far", "near-far", "near", "near"));
  EXPECT_THAT(plan.graph.to_string(), HasSubstr("free all but a part over near of blocks.0.in.weight"));
}

TEST(StepPlan, RefusesToReshardOverWhatDoesNotShard) {
  const auto complaint = [](const char* row, const DataOptions& options) -> std::string {
    try {
      static_cast<void>(plan_step(three_blocks(), data_row(row, {"near-far"}), options));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const char* why = "expected some of the axes that shard parameters ('near-far')";
  EXPECT_THAT(complaint("zero3", {.reshard_axes = "nowhere"}), HasSubstr(why));
  EXPECT_THAT(complaint("zero3", {.reshard_axes = "near-far"}), HasSubstr(why));
  EXPECT_THAT(complaint("zero2", {.reshard_axes = "near"}), HasSubstr(why));
  EXPECT_THAT(complaint("zero3", {.reshard = Reshard::AfterBackward, .reshard_axes = "near"}), HasSubstr(why));
}

TEST(StepPlan, HoldsAllParametersAtTheMiddle_WhereTheyAreKept) {
  const StepGraph kept = graph_of("zero3", {.reshard = Reshard::AfterBackward, .gathered_bytes = 2 << 20});
  EXPECT_EQ(count(kept, NodeKind::AllGather), 3);
  EXPECT_EQ(count(kept, NodeKind::Free), 6);  // of parameters and of gradients
  EXPECT_GE(figures_of(kept).bytes_in_flight, 6 << 20);
  EXPECT_LE(figures_of(kept).bytes_in_flight, 8 << 20);
}

TEST(StepPlan, KeepsTheOuterUnitFromTheFirstPassToTheLast) {
  const StepGraph graph = graph_of("zero3", {.outer_unit = "blocks.0", .gathered_bytes = 2 << 20});
  EXPECT_EQ(check(graph), "") << graph.to_string();
  std::vector<std::string> engine;
  for (const Node& node : graph.nodes) {
    if (node.name.starts_with("forward") || node.name.starts_with("backward")) engine.push_back(node.name);
  }
  EXPECT_THAT(engine, ElementsAre("forward blocks.0", "forward blocks.1", "forward done blocks.1", "forward blocks.2",
                                  "forward done blocks.2", "forward done blocks.0", "backward blocks.0",
                                  "backward blocks.2", "backward done blocks.2", "backward blocks.1",
                                  "backward done blocks.1", "backward done blocks.0"));
  EXPECT_EQ(count(graph, NodeKind::AllGather), 4);  // only the middle unit's twice
}

TEST(StepPlan, ReducesDdpInBuckets_AllButTheLastBehindTheBackwardPass) {
  const StepGraph graph = graph_of("ddp", {.buckets = ByteBuckets{.bytes = 2 << 20, .first_bytes = 1 << 20}});
  EXPECT_EQ(count(graph, NodeKind::AllReduce), 4);  // 1 + 2 + 2 + 1
  EXPECT_EQ(figures_of(graph).exposed, 1);
  EXPECT_EQ(count(graph, NodeKind::Gate), 1);
}

TEST(StepPlan, FreesGradientsOnlyWhereTheyAreSharded) {
  EXPECT_EQ(count(graph_of("zero1"), NodeKind::Free), 0);
  EXPECT_EQ(count(graph_of("zero2", {.buckets = BlockBuckets{}}), NodeKind::Free), 3);
}

TEST(StepPlan, GathersUnitsAheadWithinTheBudget) {
  const StepGraph tight = graph_of("zero3", {.gathered_bytes = 2 << 20});
  const StepGraph wide = graph_of("zero3", {.gathered_bytes = 1 << 30});
  EXPECT_EQ(count(tight, NodeKind::AllGather), 5);  // the last unit's stays for the backward pass
  EXPECT_EQ(count(tight, NodeKind::ReduceScatter), 3);
  EXPECT_LE(figures_of(tight).bytes_in_flight, 4 << 20);  // a unit, and the gradients of one
  EXPECT_EQ(wide.nodes[0].kind, NodeKind::AllGather);
  EXPECT_EQ(wide.nodes[1].kind, NodeKind::AllGather);
  EXPECT_LT(figures_of(wide).exposed, figures_of(tight).exposed);
}

/// By default a unit's parameters travel while the unit before it computes, not behind that one's gradients.
TEST(StepPlan, GathersAgainBeforeTheGradientsOfTheUnitBeforeTravel) {
  const StepGraph graph = graph_of("zero3");
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) {
    const bool is_backward = node.name.starts_with("backward") || node.kind == NodeKind::ReduceScatter;
    if (node.kind != NodeKind::AllGather && !is_backward) continue;
    const std::string unit = graph.tensors[static_cast<std::size_t>(node.tensors.front())].path.substr(0, 8);
    order.push_back(is_exchange(node.kind) ? fmt::format("{} {}", name_of(node.kind), unit) : node.name);
  }
  EXPECT_THAT(order, ElementsAre("all_gather blocks.0", "all_gather blocks.1", "all_gather blocks.2",
                                 "all_gather blocks.1", "backward blocks.2", "reduce_scatter blocks.2",
                                 "backward done blocks.2", "all_gather blocks.0", "backward blocks.1",
                                 "reduce_scatter blocks.1", "backward done blocks.1", "backward blocks.0",
                                 "reduce_scatter blocks.0", "backward done blocks.0"));
}

TEST(StepPlan, GroupsHoldEveryParameterOnce) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    const StepPlan plan = plan_step(three_blocks(), data_row(row, {"dp"}), {.buckets = BlockBuckets{}});
    std::vector<std::int32_t> all;
    for (const auto& group : plan.groups) all.insert(all.end(), group.begin(), group.end());
    std::ranges::sort(all);
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5)) << row;
  }
}

TEST(StepPlan, FollowsTheOrderInWhichGradientsCome) {
  const StepPlan plan =
      plan_step(three_blocks(), data_row("ddp", {"dp"}), {.buckets = NoBuckets{}}, {3, 1, 5, 0, 2, 4});
  std::vector<std::int32_t> order;
  for (const Node& node : plan.graph.nodes) {
    if (is_exchange(node.kind)) order.push_back(node.tensors.front() - 6);
  }
  EXPECT_THAT(order, ElementsAre(3, 1, 5, 0, 2, 4));
}

TEST(StepPlan, SaysEverythingThatIsWrongAtOnce) {
  std::vector<DataParameter> bad = three_blocks();
  bad[1].path = bad[0].path;
  bad[2].elements = 0;
  bad[3].unit = "";
  const DataRow row{"mine", {{"dp", Held::Sharded, Held::Whole, Held::Whole}}};
  try {
    (void)plan_step(bad, row, {.outer_unit = "nobody"}, {0, 0});
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    for (const char* part : {"'blocks.0.in.weight' is there twice", "'blocks.1.in.weight' has 0 elements",
                             "'blocks.1.out.weight' belongs to no unit", "parameters are sharded and gradients are not",
                             "names 2 of 6 parameters", "outer_unit 'nobody', expected the unit of a parameter"})
      EXPECT_THAT(e.what(), HasSubstr(part));
  }
}

TEST(DataRows, NameThemselvesAndTheirAxes) {
  EXPECT_THAT(data_row_names(), ElementsAre("ddp", "zero1", "zero2", "zero3", "hsdp"));
  for (const std::string_view name : data_row_names()) {
    const DataRow row =
        data_row(name, name == "hsdp" ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"a"});
    EXPECT_TRUE(violations_of(row).empty()) << name;
  }
  EXPECT_THROW((void)data_row("zero4", {"dp"}), Error);
  EXPECT_THROW((void)data_row("hsdp", {"dp"}), Error);
}

}  // namespace
}  // namespace sinew::parallel
