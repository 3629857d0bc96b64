#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/lower.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>
#include <sinew/parallel/step_graph/placed/traffic.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>

#include "../placed/random_graphs.hpp"

namespace sinew::parallel {
namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kRows = 8, kWidth = 16, kHidden = 32;
const Factorisation kMesh({{"tp", kRanks}});

/// Exchanges of the forward pass, and of what comes after the first gradient is there.
struct BothWays {
  StepTraffic forward, backward;
};
BothWays traffic_both_ways(const StepGraph& graph) {
  const auto given = std::ranges::find_if(
      graph.nodes, [](const Node& n) { return n.kind == NodeKind::Signal && n.name.starts_with("gradient of"); });
  const auto middle = static_cast<std::size_t>(given - graph.nodes.begin());
  return {traffic_of(graph, kMesh, 0, middle), traffic_of(graph, kMesh, middle, graph.nodes.size())};
}

/// After the pass; proven.
StepGraph better(const StepGraph& graph) {
  EXPECT_EQ(check_placements(graph, kMesh), "") << graph.to_string();
  StepGraph after = remove_redundant_exchanges(graph, kMesh);
  EXPECT_EQ(check_placements(after, kMesh), "") << after.to_string();
  EXPECT_EQ(same_values(graph, after, kMesh), "");
  EXPECT_EQ(check(lower(after)), "");
  return after;
}

template <class F>
StepGraph model(bool sequence_parallel, const F& layers) {
  LayerGraph graph(kMesh, {.sequence_parallel = sequence_parallel});
  graph.output("out", layers(graph, graph.rows("x", kRows, kWidth)));
  return with_backward(graph.graph(), kMesh);
}
StepGraph mlp(bool sequence_parallel) {
  return model(sequence_parallel, [](LayerGraph& g, TensorId x) { return g.mlp("mlp", x, kHidden); });
}
StepGraph attention(bool sequence_parallel) {
  return model(sequence_parallel, [](LayerGraph& g, TensorId x) { return g.attention_block("attention", x, 4); });
}
StepGraph block(bool sequence_parallel) {
  return model(sequence_parallel, [](LayerGraph& g, TensorId x) {
    x = g.residual("first", x, g.attention_block("attention", g.norm("norm1", x), 4));
    return g.residual("second", x, g.mlp("mlp", g.norm("norm2", x), kHidden));
  });
}

/// Forward and backward before the pass, and after it.
void expect_counts(const StepGraph& before, const std::vector<std::string>& expected) {
  const StepGraph after = better(before);
  const BothWays was = traffic_both_ways(before), is = traffic_both_ways(after);
  const std::vector<std::string> found{was.forward.to_string(), was.backward.to_string(), is.forward.to_string(),
                                       is.backward.to_string()};
  EXPECT_EQ(found, expected) << after.to_string();
}

// An all_reduce of all rows sends 3 KiB, a half of it 1.5 KiB.
TEST(Redundant, LeavesAnMlpOneSumEachWay) {
  expect_counts(mlp(false), {"1 all_gather, 1 all_reduce: 6KiB", "1 all_gather, 1 all_reduce: 6KiB",
                             "1 all_reduce: 3KiB", "1 all_reduce: 3KiB"});
  expect_counts(mlp(true), {"1 all_gather, 1 reduce_scatter, 2 all_to_alls: 4608B",
                            "1 all_gather, 1 reduce_scatter, 2 all_to_alls: 4608B",
                            "1 all_gather, 1 reduce_scatter: 3KiB", "1 all_gather, 1 reduce_scatter: 3KiB"});
}

TEST(Redundant, LeavesAttentionOneSumEachWay) {
  expect_counts(attention(false), {"4 all_gathers, 1 all_reduce: 9KiB", "4 all_gathers, 3 all_reduces: 15KiB",
                                   "1 all_reduce: 3KiB", "1 all_reduce: 3KiB"});
  expect_counts(attention(true), {"3 all_gathers, 1 reduce_scatter, 8 all_to_alls: 9KiB",
                                  "1 all_gather, 3 reduce_scatters, 8 all_to_alls: 9KiB",
                                  "1 all_gather, 1 reduce_scatter: 3KiB", "1 all_gather, 1 reduce_scatter: 3KiB"});
}

/// With rows in parts each rank has a norm's gain for its rows only: the sums of two gains are what is left besides.
TEST(Redundant, LeavesABlockTwoSumsEachWay) {
  expect_counts(block(false), {"5 all_gathers, 2 all_reduces: 15KiB", "5 all_gathers, 4 all_reduces: 21KiB",
                               "2 all_reduces: 6KiB", "2 all_reduces: 6KiB"});
  expect_counts(block(true),
                {"4 all_gathers, 2 reduce_scatters, 10 all_to_alls: 13824B",
                 "2 all_gathers, 4 reduce_scatters, 2 all_reduces, 10 all_to_alls: 14592B",
                 "2 all_gathers, 2 reduce_scatters: 6KiB", "2 all_gathers, 2 reduce_scatters, 2 all_reduces: 6912B"});
}

/// A graph of one axis, by hand.
struct Small {
  LayerGraph graph{kMesh, {}};
  TensorId in(const std::string& name, const Placement& placement, std::int64_t rows = 8, std::int64_t columns = 16) {
    return graph.input(name, {rows, columns}, placement);
  }
  TensorId same(const std::string& function, TensorId x) { return graph.element_wise(function, x, function); }
  std::string after() const { return traffic_of(better(graph.graph()), kMesh).to_string(); }
  std::string before() const { return traffic_of(graph.graph(), kMesh).to_string(); }
};

const Shard kColumns{1, {}}, kRowsCut{0, {}};

TEST(Redundant, LeavesPartsThatAreGatheredAndSplitAgain_WhateverLiesBetween) {
  Small g;
  TensorId x = g.graph.moved(g.in("x", kRowsCut), Replicate{});
  x = g.graph.compute("softmax", {.labels = "ro->ro", .function = "softmax", .whole = "o"}, {x}, {8, 16});
  x = g.graph.compute("heads", {.labels = "r(hd)->hrd", .linear = {0}}, {g.same("tanh", x)}, {4, 8, 4});
  g.graph.output("out", g.graph.moved(x, Shard{1, {}}));
  EXPECT_EQ(g.before(), "1 all_gather: 1536B");
  EXPECT_EQ(g.after(), "no exchange: 0B");
}

TEST(Redundant, ExchangesOnceWhatIsExchangedTwice) {
  Small g;
  const TensorId x = g.in("x", kRowsCut), y = g.in("y", Partial{});
  for (const char* name : {"a", "b"}) {
    g.graph.output(name, g.graph.norm(std::string("norm ") + name, g.graph.moved(x, Replicate{})));
    g.graph.output(std::string("sum ") + name, g.same("tanh", g.graph.moved(y, Replicate{})));
  }
  EXPECT_EQ(g.before(), "2 all_gathers, 2 all_reduces: 9KiB");
  EXPECT_EQ(g.after(), "1 all_gather, 1 all_reduce: 4608B") << "the norms' results are read whole";
}

TEST(Redundant, SumsAndSplitsInOneExchange_AndGathersWhatIsSummedOnce) {
  Small split;
  split.graph.output("out", split.graph.moved(split.graph.moved(split.in("x", Partial{}), Replicate{}), kColumns));
  EXPECT_EQ(split.before(), "1 all_reduce: 3KiB");
  EXPECT_EQ(split.after(), "1 reduce_scatter: 1536B");
  Small whole;
  whole.graph.output("out", whole.graph.moved(whole.graph.moved(whole.in("x", Partial{}), kColumns), Replicate{}));
  EXPECT_EQ(whole.before(), "1 all_gather, 1 reduce_scatter: 3KiB");
  EXPECT_EQ(whole.after(), "1 all_reduce: 3KiB");
}

TEST(Redundant, AddsPartsBeforeItExchangesTheirSum) {
  Small g;
  const TensorId whole = g.graph.moved(g.in("x", kColumns), Replicate{});
  g.graph.output("out", g.graph.compute("rows", {.labels = "rc->r", .linear = {0}}, {whole}, {8}));
  EXPECT_EQ(g.before(), "1 all_gather: 1536B");
  EXPECT_EQ(g.after(), "1 all_reduce: 192B") << "of 8 sums, not 8 x 16 elements";
  Small two;
  const TensorId a = two.graph.moved(two.in("a", Partial{}), Replicate{}),
                 b = two.graph.moved(two.in("b", Partial{}), Replicate{});
  two.graph.output("out", two.graph.residual("sum", a, b));
  EXPECT_EQ(two.before(), "2 all_reduces: 6KiB");
  EXPECT_EQ(two.after(), "1 all_reduce: 3KiB");
}

TEST(Redundant, KeepsWhatIsNeeded) {
  const auto kept = [](const std::function<TensorId(Small&)>& made) {
    Small g;
    g.graph.output("out", made(g));
    EXPECT_EQ(g.after(), g.before()) << g.graph.graph().to_string();
  };
  kept([](Small& g) { return g.graph.norm("norm", g.graph.moved(g.in("x", kColumns), Replicate{})); });
  kept([](Small& g) { return g.same("tanh", g.graph.moved(g.in("x", Partial{}), Replicate{})); });
  kept([](Small& g) { return g.graph.moved(g.in("x", kColumns), Replicate{}); });
  kept([](Small& g) {
    const TensorId x = g.graph.moved(g.in("x", kRowsCut), Replicate{});
    g.graph.output("x", x);
    return g.graph.moved(g.same("tanh", x), kRowsCut);
  });
}

/// An input that no exchange has sent is not sent, though a smaller exchange would do: who has the weight, has it.
TEST(Redundant, LeavesParametersWhereTheyAre) {
  LayerGraph g(kMesh, {});
  g.output("out", g.mlp("mlp", g.rows("x", 4096, 4), 8));
  const StepGraph after = better(g.graph());
  EXPECT_EQ(traffic_of(after, kMesh).to_string(), "1 all_reduce: 384KiB") << after.to_string();
}

TEST(Redundant, NeverAddsBytes_WhateverTheGraph) {
  std::int64_t was = 0, is = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const StepGraph before = test::random_graph(seed, kMesh), after = better(before);
    const std::int64_t bytes = traffic_of(before, kMesh).bytes, now = traffic_of(after, kMesh).bytes;
    EXPECT_LE(now, bytes) << "seed " << seed;
    EXPECT_EQ(traffic_of(remove_redundant_exchanges(after, kMesh), kMesh), traffic_of(after, kMesh)) << "seed " << seed;
    was += bytes, is += now;
  }
  EXPECT_LT(is, was / 2) << "of exchanges as they come";
}

TEST(Redundant, CutsHeadsThatRanksDoNotShareEvenly) {
  LayerGraph g(kMesh, {});
  g.output("out", g.attention_block("attention", g.rows("x", 6, 24), 6));
  const StepGraph before = with_backward(g.graph(), kMesh);
  const BothWays is = traffic_both_ways(better(before));
  EXPECT_EQ(is.forward.all_reduces + is.backward.all_reduces, 2);
  EXPECT_EQ(is.forward.exchanges() + is.backward.exchanges(), 2);
}

/// Rows over dp and columns over tp: gathered along both, bent, and split along both again.
TEST(Redundant, WorksAlongEachAxis) {
  const Factorisation mesh({{"tp", 2}, {"dp", 3}});
  const Placements rows({{"dp", kRowsCut}}), parts({{"dp", kRowsCut}, {"tp", kColumns}});
  StepGraph graph;
  const auto tensor = [&](const std::string& name, const Placements& placements) {
    graph.tensors.push_back({.name = name, .elements = 72, .shape = {6, 12}, .placements = placements});
    return static_cast<TensorId>(graph.tensors.size() - 1);
  };
  const TensorId x = tensor("x", parts), x_rows = tensor("x rows", rows), whole = tensor("x whole", {}),
                 y = tensor("y", {}), y_rows = tensor("y rows", rows), y_parts = tensor("y parts", parts);
  graph.nodes = {{.kind = NodeKind::Signal, .name = "x", .tensors = {x}},
                 {.kind = NodeKind::AllGather, .tensors = {x_rows}, .axes = "tp", .exchange = 0, .operands = {x}},
                 {.kind = NodeKind::AllGather, .tensors = {whole}, .axes = "dp", .exchange = 1, .operands = {x_rows}},
                 {.kind = NodeKind::Compute,
                  .name = "y",
                  .tensors = {y},
                  .operands = {whole},
                  .rule = {.labels = "rc->rc", .function = "tanh"}},
                 {.kind = NodeKind::Split, .name = "y rows", .tensors = {y_rows}, .axes = "dp", .operands = {y}},
                 {.kind = NodeKind::Split, .name = "y parts", .tensors = {y_parts}, .axes = "tp", .operands = {y_rows}},
                 {.kind = NodeKind::Gate, .name = "out", .tensors = {y_parts}}};
  ASSERT_EQ(check_placements(graph, mesh), "");
  EXPECT_EQ(traffic_of(graph, mesh).to_string(), "2 all_gathers: 672B");
  const StepGraph after = remove_redundant_exchanges(graph, mesh);
  EXPECT_EQ(check_placements(after, mesh), "");
  EXPECT_EQ(same_values(graph, after, mesh), "");
  EXPECT_EQ(traffic_of(after, mesh).exchanges(), 0) << after.to_string();
}

}  // namespace
}  // namespace sinew::parallel
