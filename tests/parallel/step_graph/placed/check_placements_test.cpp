#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/lower.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>
#include <sinew/parallel/tensor/pairs.hpp>

#include "../figures.hpp"

namespace sinew::parallel {
namespace {

using test::figures_of;
using ::testing::HasSubstr;

const Factorisation kMesh({{"tp", 2}});
const Shard kRows{0, {}}, kColumns{1, {}};

/// What is said of a compute of operands [4, 4] with these placements.
std::string refusal(const ComputeRule& rule, const std::vector<Placement>& placements) {
  LayerGraph g(kMesh, {});
  std::vector<TensorId> operands;
  for (const Placement& p : placements) operands.push_back(g.input("x" + std::to_string(operands.size()), {4, 4}, p));
  try {
    g.compute("y", rule, operands, {4, 4});
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  EXPECT_EQ(check_placements(g.graph(), kMesh), "");
  return {};
}

TEST(CheckPlacements, AcceptsWhatRulesMean) {
  const ComputeRule linear{.labels = "ri,oi->ro", .linear = {0, 1}}, sum{.labels = "ro+ro->ro"};
  EXPECT_EQ(refusal(linear, {Replicate{}, kRows}), "");
  EXPECT_EQ(refusal(linear, {kColumns, kColumns}), "");
  EXPECT_EQ(refusal(linear, {kRows, Replicate{}}), "");
  EXPECT_EQ(refusal(linear, {Partial{}, Replicate{}}), "");
  EXPECT_EQ(refusal(sum, {Partial{}, Partial{}}), "");
  EXPECT_EQ(refusal(sum, {kRows, kRows}), "");
}

TEST(CheckPlacements, NamesWhatItRefuses) {
  const ComputeRule linear{.labels = "ri,oi->ro", .linear = {0, 1}}, sum{.labels = "ro+ro->ro"},
      bent{.labels = "ro->ro", .function = "tanh"}, softmax{.labels = "ro->ro", .function = "softmax", .whole = "o"};
  EXPECT_EQ(refusal(linear, {kColumns, Replicate{}}),
            "compute y: 'x1' along tp: found Replicate, expected Shard(1) beside 'x0', which is Shard(1)");
  EXPECT_EQ(refusal(linear, {kRows, kRows}),
            "compute y: 'x1' along tp: found Shard(0), expected Replicate beside 'x0', which is Shard(0)");
  EXPECT_EQ(refusal(linear, {Partial{}, Partial{}}),
            "compute y: 'x1' along tp: found Partial(sum), expected Replicate beside 'x0', which is Partial(sum)");
  EXPECT_EQ(refusal(linear, {Partial{}, kRows}),
            "compute y: 'x1' along tp: found Shard(0), expected Replicate beside 'x0', which is Partial(sum)");
  EXPECT_EQ(refusal(linear, {Partial{ReduceOp::Max}, Replicate{}}),
            "compute y: 'x0' along tp: found Partial(max), expected Replicate: only sums may be missing");
  EXPECT_EQ(refusal(sum, {Partial{}, Replicate{}}),
            "compute y: 'x1' along tp: found Replicate, expected Partial(sum) beside 'x0', which is Partial(sum)");
  EXPECT_EQ(refusal(bent, {Partial{}}),
            "compute y: 'x0' along tp: found Partial(sum), expected Replicate: the compute is not linear in it");
  EXPECT_EQ(refusal(softmax, {kColumns}),
            "compute y: 'x0' along tp: found Shard(1), expected Replicate: 'o' must be whole");
}

TEST(CheckPlacements, NamesLabelsThatAreNone) {
  for (const char* labels : {"ro", "ro->r*", "r(o->ro", "rr->ro", "ro+ro->r", "ro->ro,ro", "r->ro", "ro,ro->ro"})
    EXPECT_THAT(refusal({.labels = labels}, {Replicate{}}), HasSubstr("compute y: ")) << labels;
  EXPECT_THAT(refusal({.labels = "ro->r(od)", .extents = {{'d', 3}}}, {Replicate{}}), HasSubstr("in dimension 1"));
}

TEST(CheckPlacements, LetsNoHeadBeCut) {
  LayerGraph g(kMesh, {});
  const TensorId x = g.input("x", {4, 12}, kColumns);  // three heads of four
  const ComputeRule heads{.labels = "r(hd)->rhd", .linear = {0}};
  try {
    g.compute("heads", heads, {x}, {4, 3, 4});
    FAIL() << "columns 0..5 are a head and a half";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'x' along tp: found Shard(1), expected a cut that leaves its inner labels whole"));
  }
  const TensorId cut = g.compute("heads", heads, {g.moved(x, Shard{1, {0, 4, 12}})}, {4, 3, 4});
  EXPECT_EQ(to_string(g.graph().tensors[static_cast<std::size_t>(cut)].placements.along("tp")), "Shard(1)");
}

/// An MLP, with one thing changed.
std::string fault_of(const std::function<void(StepGraph&)>& change) {
  LayerGraph g(kMesh, {});
  g.output("out", g.mlp("mlp", g.rows("x", 4, 4), 8));
  StepGraph graph = g.graph();
  change(graph);
  return check_placements(graph, kMesh);
}
Node& first(StepGraph& graph, NodeKind kind) { return *std::ranges::find(graph.nodes, kind, &Node::kind); }

TEST(CheckPlacements, FindsExchangesThatAreNotWhatTheySay) {
  EXPECT_EQ(fault_of([](StepGraph&) {}), "");
  EXPECT_THAT(fault_of([](StepGraph& g) { first(g, NodeKind::AllReduce).kind = NodeKind::AllGather; }),
              HasSubstr("all_gather 1: 'mlp.down whole' along tp: found Replicate of Partial(sum)"));
  EXPECT_THAT(fault_of([](StepGraph& g) { first(g, NodeKind::AllReduce).axes = "dp"; }), HasSubstr("'dp' is no axis"));
  EXPECT_THAT(fault_of([](StepGraph& g) { first(g, NodeKind::AllReduce).operands.clear(); }),
              HasSubstr("makes 1 tensors of 0"));
  EXPECT_THAT(fault_of([](StepGraph& g) { std::swap(g.nodes[1], g.nodes[2]); }), HasSubstr("is not made yet"));
  EXPECT_THAT(fault_of([](StepGraph& g) { g.nodes.push_back(g.nodes[2]); }), HasSubstr("is made twice"));
  EXPECT_THAT(fault_of([](StepGraph& g) { g = lower(g); }), HasSubstr("not expected before computes are lowered"));
  EXPECT_THAT(fault_of([](StepGraph& g) { g.nodes.back().tensors = {77}; }), HasSubstr("there is no tensor 77"));
}

TEST(CheckPlacements, FindsAxesThatCutInAnotherOrder) {
  const Factorisation mesh({{"tp", 2}, {"dp", 2}});
  LayerGraph g(mesh, {});
  const TensorId x = g.input("x", {8}, kRows), y = g.compute("y", {.labels = "r->r", .function = "tanh"}, {x}, {8});
  StepGraph graph = g.graph();
  const auto cut = [&](TensorId t, const char* outer, const char* inner) {
    graph.tensors[static_cast<std::size_t>(t)].placements = Placements({{outer, kRows}, {inner, kRows}});
  };
  cut(x, "dp", "tp"), cut(y, "dp", "tp");
  EXPECT_EQ(check_placements(graph, mesh), "");
  cut(y, "tp", "dp");
  EXPECT_EQ(check_placements(graph, mesh), "compute y: 'y' is cut along tp-dp, expected dp-tp as 'x' is");
}

TEST(SameValues, FindsAGateThatReadsSomethingElse) {
  LayerGraph g(kMesh, {});
  const TensorId x = g.rows("x", 4, 4), a = g.element_wise("a", x, "tanh"), b = g.element_wise("b", a, "tanh");
  g.output("out", b);
  StepGraph other = g.graph();
  EXPECT_EQ(same_values(g.graph(), other, kMesh), "");
  other.nodes.back().tensors = {a};
  EXPECT_THAT(same_values(g.graph(), other, kMesh), HasSubstr("gate out: found"));
  other = g.graph();
  other.nodes.back().name = "in";
  EXPECT_EQ(same_values(g.graph(), other, kMesh), "gate out: it is gone");
}

TEST(Lower, LetsTheEngineRunWhatItComputes) {
  LayerGraph g(kMesh, {});
  g.output("out", g.mlp("mlp", g.rows("x", 4, 4), 8));
  EXPECT_THAT(check(g.graph()), HasSubstr("compute mlp.up: nothing runs it"));
  const StepGraph lowered = lower(g.graph());
  EXPECT_EQ(check(lowered), "");
  EXPECT_EQ(check(wait_late(issue_early(lowered))), "");
  EXPECT_EQ(figures_of(lowered).exchanges, 2);
  EXPECT_THAT(g.graph().to_string(), HasSubstr("compute mlp.up (ri,oi->ro): x, mlp.up.weight -> mlp.up\n"
                                               "all_gather 0 over tp: mlp.up -> mlp.up whole (128B)\n"));
}

/// The backward pass of an exchange is the other half of its pair.
TEST(WithBackward, MakesTheTransposesOfPairs) {
  for (const Pair& pair : {copy_pair(), reduce_pair(), split_pair(kRows), gather_pair(kRows),
                           gather_for_parts_pair(kRows), reduce_scatter_pair(kRows), transpose_pair(kRows, kColumns)}) {
    LayerGraph g(kMesh, {});
    const TensorId x = g.input("x", {4, 4}, pair.value_from), moved = g.moved(x, pair.value_to);
    const bool own_ways = std::holds_alternative<Partial>(pair.gradient_from);
    g.output("out", own_ways ? g.compute("y", {.labels = "ri,oi->ro", .linear = {0, 1}},
                                         {moved, g.input("w", {4, 4}, kRows)}, {4, 4})
                             : g.element_wise("y", moved, "tanh"));
    const StepGraph graph = with_backward(g.graph(), kMesh);
    ASSERT_EQ(check_placements(graph, kMesh), "");
    std::vector<std::pair<Placement, Placement>> moves;
    for (std::size_t i = g.graph().nodes.size(); i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.kind == NodeKind::Compute || node.kind == NodeKind::Gate || node.kind == NodeKind::Signal) continue;
      const auto along = [&](TensorId t) { return graph.tensors[static_cast<std::size_t>(t)].placements.along("tp"); };
      moves.emplace_back(along(node.operands[0]), along(node.tensors[0]));
    }
    std::vector<std::pair<Placement, Placement>> expected;
    if (pair.gradient_from != pair.gradient_to) expected.emplace_back(pair.gradient_from, pair.gradient_to);
    EXPECT_EQ(moves, expected) << pair.name << "\n" << graph.to_string();
  }
}

TEST(WithBackward, NamesWhatHasNone) {
  const auto refusal = [](const Placement& placement, const ComputeRule& rule) {
    LayerGraph g(kMesh, {});
    const TensorId x = g.moved(g.input("x", {4, 4}, placement), Replicate{});
    g.output("out", g.compute("y", rule, {x}, {4, 4}));
    try {
      with_backward(g.graph(), kMesh);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(Partial{}, {.labels = "ro->ro", .function = "tanh"}), "");
  EXPECT_EQ(refusal(Partial{ReduceOp::Max}, {.labels = "ro->ro", .function = "tanh"}),
            "backward pass: 'x' is Partial(max) along tp, expected Partial(sum)");
}

}  // namespace
}  // namespace sinew::parallel
