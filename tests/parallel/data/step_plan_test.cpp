#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data/step_plan.hpp>

namespace sinew::parallel {
namespace {

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
  EXPECT_EQ(figures_of(graph_of("zero3")).bytes, 3 * bytes);  // all-gather twice, reduce-scatter
  EXPECT_EQ(figures_of(graph_of("hsdp")).bytes, 4 * bytes);   // and an all-reduce of the parts
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
  EXPECT_EQ(count(tight, NodeKind::AllGather), 6);
  EXPECT_EQ(count(tight, NodeKind::ReduceScatter), 3);
  EXPECT_LE(figures_of(tight).bytes_in_flight, 4 << 20);  // a unit, and the gradients of one
  EXPECT_EQ(wide.nodes[0].kind, NodeKind::AllGather);
  EXPECT_EQ(wide.nodes[1].kind, NodeKind::AllGather);
  EXPECT_LT(figures_of(wide).exposed, figures_of(tight).exposed);
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
    (void)plan_step(bad, row, {}, {0, 0});
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    for (const char* part : {"'blocks.0.in.weight' is there twice", "'blocks.1.in.weight' has 0 elements",
                             "'blocks.1.out.weight' belongs to no unit", "parameters are sharded and gradients are not",
                             "names 2 of 6 parameters"})
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
