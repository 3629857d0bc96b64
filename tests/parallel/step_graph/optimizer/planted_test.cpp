#include "planted.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>
#include <sinew/parallel/step_graph/optimizer/same_reads.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/lower.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>
#include <sinew/parallel/step_graph/placed/traffic.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>

#include "../placed/simulated_ranks.hpp"
#include "in_place_ranks.hpp"

namespace sinew::parallel {
namespace {

constexpr unsigned kSeeds = 8;
constexpr int kPlanted = 12;

// Graphs of computes: written layer by layer, with the exchanges that are needed known from the layers.

struct Written {
  std::string name;
  Factorisation mesh;
  std::string needed;  // StepTraffic of the least exchanges
  std::function<StepGraph(const Factorisation&)> write;
};

const Shard kRowsCut{0, {}}, kColumnsCut{1, {}};
const Factorisation kFour({{"tp", 4}}), kThree({{"tp", 3}}), kPlane({{"tp", 2}, {"dp", 2}});

LayerGraph layers(const Factorisation& mesh, bool sequence_parallel = false, const std::string& axis = "tp") {
  return {mesh, {.axis = axis, .sequence_parallel = sequence_parallel, .dtype = DType::F64}};
}
StepGraph with_output(LayerGraph& g, TensorId out) {
  g.output("out", out);
  return g.graph();
}
TensorId block(LayerGraph& g, const std::string& name, TensorId x) {
  x = g.residual(name + " first", x, g.attention_block(name + " attention", g.norm(name + " norm1", x), 4));
  return g.residual(name + " second", x, g.mlp(name + " mlp", g.norm(name + " norm2", x), 32));
}
StepGraph model(const Factorisation& mesh, bool sequence_parallel, bool both_ways,
                const std::function<TensorId(LayerGraph&, TensorId)>& written) {
  LayerGraph g = layers(mesh, sequence_parallel);
  StepGraph graph = with_output(g, written(g, g.rows("x", 8, 16)));
  return both_ways ? with_backward(std::move(graph), mesh) : graph;
}

/// Rows over dp and columns over tp, or columns over tp alone, of a tensor that the engine gives.
TensorId on_plane(StepGraph& g, const std::string& name, const Placements& placements) {
  g.tensors.push_back({.name = name, .dtype = DType::F64, .elements = 64, .shape = {8, 8}, .placements = placements});
  const auto t = static_cast<TensorId>(g.tensors.size() - 1);
  g.nodes.push_back({.kind = NodeKind::Signal, .name = name, .tensors = {t}});
  return t;
}
TensorId made_on_plane(StepGraph& g, Node node, const Placements& placements) {
  g.tensors.push_back(
      {.name = node.name, .dtype = DType::F64, .elements = 64, .shape = {8, 8}, .placements = placements});
  node.tensors = {static_cast<TensorId>(g.tensors.size() - 1)};
  if (is_exchange(node.kind)) node.exchange = g.next_exchange();
  g.nodes.push_back(std::move(node));
  return g.nodes.back().tensors.front();
}

std::vector<Written> written_graphs() {
  const auto mlp = [](LayerGraph& g, TensorId x) { return g.mlp("mlp", x, 32); };
  const auto attention = [](LayerGraph& g, TensorId x) { return g.attention_block("attention", x, 4); };
  const auto of = [](bool sequence, bool both_ways, const std::function<TensorId(LayerGraph&, TensorId)>& written) {
    return [=](const Factorisation& mesh) { return model(mesh, sequence, both_ways, written); };
  };
  std::vector<Written> all{
      {"mlp", kFour, "1 all_reduce: 6KiB", of(false, false, mlp)},
      {"mlp both ways", kFour, "2 all_reduces: 12KiB", of(false, true, mlp)},
      {"mlp, rows in parts", kFour, "2 all_gathers, 2 reduce_scatters: 12KiB", of(true, true, mlp)},
      {"attention", kFour, "2 all_reduces: 12KiB", of(false, true, attention)},
      {"attention, rows in parts", kFour, "2 all_gathers, 2 reduce_scatters: 12KiB", of(true, true, attention)},
      {"block", kFour, "4 all_reduces: 24KiB",
       of(false, true, [](LayerGraph& g, TensorId x) { return block(g, "a", x); })},
      {"two blocks, rows in parts", kFour, "8 all_gathers, 8 reduce_scatters, 4 all_reduces: 51KiB",
       of(true, true, [](LayerGraph& g, TensorId x) { return block(g, "b", block(g, "a", x)); })},
  };
  all.push_back({"norm of columns in parts", kThree, "1 all_gather: 2KiB", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   return with_output(g, g.norm("n", g.moved(g.input("x", {8, 16}, kColumnsCut), Replicate{})));
                 }});
  all.push_back({"two norms of one tensor", kFour, "1 all_gather: 3KiB", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   const TensorId x = g.input("x", {8, 16}, kRowsCut);
                   for (const char* name : {"a", "b"})
                     g.output(std::string(name) + " out", g.norm(name, g.moved(x, Replicate{})));
                   return g.graph();
                 }});
  all.push_back(
      {"a weight that two layers share", kThree, "1 all_gather: 2KiB", [](const Factorisation& mesh) {
         LayerGraph g = layers(mesh);
         const TensorId weight = g.input("shared", {16, 8}, kRowsCut);
         for (const char* name : {"a", "b"}) {
           const TensorId x = g.input(std::string("x") + name, {8, 16}, Replicate{});
           const ComputeRule rule{.labels = "ri,io->ro", .linear = {0, 1}};
           g.output(std::string(name) + " out", g.compute(name, rule, {x, g.moved(weight, Replicate{})}, {8, 8}));
         }
         return g.graph();
       }});
  all.push_back({"branches, one of which needs the whole", kFour, "1 all_gather: 3KiB", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   const TensorId x = g.moved(g.input("x", {8, 16}, kColumnsCut), Replicate{});
                   g.output("whole", g.norm("norm", x));
                   g.output("parts", g.moved(g.element_wise("tanh", x, "tanh"), kColumnsCut));
                   return g.graph();
                 }});
  all.push_back({"partial sums that are added", kThree, "1 all_reduce: 4KiB", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   const TensorId a = g.moved(g.input("a", {8, 16}, Partial{}), Replicate{}),
                                  b = g.moved(g.input("b", {8, 16}, Partial{}), Replicate{});
                   return with_output(g, g.residual("sum", a, b));
                 }});
  all.push_back({"gathered, then split", kFour, "no exchange: 0B", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   const TensorId x = g.moved(g.input("x", {8, 16}, kRowsCut), Replicate{});
                   return with_output(g, g.moved(g.element_wise("tanh", x, "tanh"), kRowsCut));
                 }});
  all.push_back({"summed, then split", kFour, "1 reduce_scatter: 3KiB", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   return with_output(g, g.moved(g.moved(g.input("x", {8, 16}, Partial{}), Replicate{}), kRowsCut));
                 }});
  all.push_back({"scattered, then gathered", kFour, "1 all_reduce: 6KiB", [](const Factorisation& mesh) {
                   LayerGraph g = layers(mesh);
                   return with_output(g, g.moved(g.moved(g.input("x", {8, 16}, Partial{}), kRowsCut), Replicate{}));
                 }});
  all.push_back({"a plane: the gradient of a weight over dp", kPlane, "1 all_reduce: 512B", [](const Factorisation&) {
                   const Placements rows({{"dp", kRowsCut}}), columns({{"tp", kColumnsCut}}),
                       both({{"dp", kRowsCut}, {"tp", kColumnsCut}}), sum({{"dp", Partial{}}, {"tp", kColumnsCut}});
                   StepGraph g;
                   const TensorId x = on_plane(g, "x", rows), dy = on_plane(g, "dy", both);
                   const ComputeRule rule{.labels = "ri,ro->io", .linear = {0, 1}};
                   const TensorId dw = made_on_plane(
                       g, {.kind = NodeKind::Compute, .name = "dw", .operands = {x, dy}, .rule = rule}, sum);
                   const TensorId summed = made_on_plane(
                       g, {.kind = NodeKind::AllReduce, .name = "summed", .axes = "dp", .operands = {dw}}, columns);
                   g.nodes.push_back({.kind = NodeKind::Gate, .name = "out", .tensors = {summed}});
                   return g;
                 }});
  all.push_back({"a plane: whole rows for a norm", kPlane, "1 all_gather: 256B", [](const Factorisation&) {
                   const Placements rows({{"dp", kRowsCut}}), both({{"dp", kRowsCut}, {"tp", kColumnsCut}});
                   StepGraph g;
                   const TensorId x = on_plane(g, "x", both);
                   const TensorId whole = made_on_plane(
                       g, {.kind = NodeKind::AllGather, .name = "whole", .axes = "tp", .operands = {x}}, rows);
                   const ComputeRule rule{.labels = "ro->ro", .function = "softmax", .whole = "o"};
                   const TensorId y = made_on_plane(
                       g, {.kind = NodeKind::Compute, .name = "y", .operands = {whole}, .rule = rule}, rows);
                   g.nodes.push_back({.kind = NodeKind::Gate, .name = "out", .tensors = {y}});
                   return g;
                 }});
  return all;
}

/// Every exchange that is left is needed: without it, a compute or a gate gets what it cannot take.
void expect_each_is_needed(const StepGraph& graph, const Factorisation& mesh) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_exchange(graph.nodes[i].kind)) continue;
    StepGraph without = graph;
    const TensorId from = graph.nodes[i].operands.front(), to = graph.nodes[i].tensors.front();
    without.nodes.erase(without.nodes.begin() + static_cast<std::ptrdiff_t>(i));
    for (Node& node : without.nodes) {
      std::ranges::replace(node.operands, to, from);
      if (node.kind == NodeKind::Gate) std::ranges::replace(node.tensors, to, from);
    }
    EXPECT_NE(check_placements(without, mesh) + same_values(graph, without, mesh), "")
        << "without exchange " << graph.nodes[i].exchange << " of\n"
        << graph.to_string();
  }
}

TEST(Planted, AreRemovedFromGraphsOfComputes_AndNothingElse) {
  int planted_in_all = 0;
  const std::vector<Written> all = written_graphs();
  for (const Written& written : all) {
    SCOPED_TRACE(written.name);
    const StepGraph naive = written.write(written.mesh);
    ASSERT_EQ(check_placements(naive, written.mesh), "");
    const std::vector<test::Array> given = test::given(naive, 3);
    const test::ReadOnRanks expected = test::expected_on_ranks(naive, written.mesh, test::run_whole(naive, given));
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      const test::Planted planted =
          seed == 0 ? test::Planted{naive, 0} : test::planted_in_computes(naive, written.mesh, seed, kPlanted);
      planted_in_all += planted.exchanges;
      ASSERT_EQ(check_placements(planted.graph, written.mesh), "");
      const OptimizedComputes found = optimize_exchanges(planted.graph, written.mesh, {.merge = ByteBuckets{}});
      EXPECT_EQ(traffic_of(found.computes, written.mesh).to_string(), written.needed) << found.computes.to_string();
      expect_each_is_needed(found.computes, written.mesh);
      EXPECT_EQ(check(found.graph), "");
      const test::ReadOnRanks read = test::run_simulated(found.computes, found.graph, written.mesh, given);
      EXPECT_LT(test::worst(read, expected), 1e-12) << found.graph.to_string();
      const std::int64_t gone =
          traffic_of(planted.graph, written.mesh).exchanges() - traffic_of(found.computes, written.mesh).exchanges();
      EXPECT_EQ(found.report.count(ExchangeChange::Removed) - found.report.count(ExchangeChange::Added), gone)
          << found.report.to_string(found.graph);
    }
  }
  EXPECT_GT(planted_in_all, 1000);
  std::printf("planted: %zu graphs, %d exchanges\n", all.size(), planted_in_all);
}

// Graphs whose exchanges are in place: those of data parallelism.

struct Planned {
  std::string name;
  DataRow row;
  Factorisation mesh;
  DataOptions options;
};

std::vector<DataParameter> parameters() {
  std::vector<DataParameter> all;
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* name : {"weight", "bias"})
      all.push_back(
          {.path = fmt::format("blocks.{}.{}", layer, name), .elements = 240, .unit = fmt::format("blocks.{}", layer)});
  }
  return all;
}

std::vector<Planned> planned_graphs() {
  const Factorisation line({{"dp", 4}}), plane({{"near", 2}, {"far", 3}});
  return {{"ddp", data_row("ddp", {"dp"}), line, {}},
          {"ddp, blocks", data_row("ddp", {"dp"}), line, {.buckets = BlockBuckets{}}},
          {"zero1", data_row("zero1", {"dp"}), line, {.buckets = LayerBuckets{}}},
          {"zero2", data_row("zero2", {"dp"}), line, {.buckets = NoBuckets{}}},
          {"zero3", data_row("zero3", {"dp"}), line, {}},
          {"zero3, kept", data_row("zero3", {"dp"}), line, {.reshard = Reshard::AfterBackward}},
          {"zero3, near", data_row("zero3", {"near-far"}), plane, {.reshard_axes = "near"}},
          {"hsdp", data_row("hsdp", {"near", "far"}), plane, {}}};
}

/// The exchanges of a graph, sorted, without their numbers: of two equal gathers either one may stay.
std::vector<std::string> exchanges_of(const StepGraph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) {
    if (is_exchange(node.kind))
      all.push_back(fmt::format("{} over {} of {}", name_of(node.kind), node.axes, graph.bytes(node)));
  }
  std::ranges::sort(all);
  return all;
}

TEST(Planted, AreRemovedFromStepsOfDataParallelism_AndNothingElse) {
  int planted_in_all = 0;
  const std::vector<Planned> all = planned_graphs();
  for (const Planned& planned : all) {
    SCOPED_TRACE(planned.name);
    const StepGraph graph = plan_step(parameters(), planned.row, planned.options).graph;
    const std::string sharded =
        sharded_axis(planned.row).axis.empty() ? planned.row.axes.front().axis : sharded_axis(planned.row).axis;
    std::vector<TensorId> later(parameters().size());
    std::iota(later.begin(), later.end(), 0);
    const test::ElementsRead expected = test::read_in_place(graph, planned.mesh, sharded, later);
    // A unit that is freed after its forward pass, and for which there is room at once, is gathered right after it was
    // freed. This is the unit before the last one, and the only redundant exchange of the graphs.
    const bool frees =
        sharded_axis(planned.row).parameter == Held::Sharded && planned.options.reshard == Reshard::AfterForward;
    const StepGraph least = optimize_exchanges(graph, {.moves = false, .read_later = later}).graph;
    EXPECT_EQ(exchanges_of(graph).size() - exchanges_of(least).size(), frees ? 1U : 0U) << graph.to_string();
    for (unsigned seed = 0; seed < 4 * kSeeds; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      const test::Planted planted = seed == 0 ? test::Planted{graph, 0} : test::planted_in_place(least, seed, kPlanted);
      planted_in_all += planted.exchanges;
      ASSERT_LT(test::worst(test::read_in_place(planted.graph, planned.mesh, sharded, later), expected), 1e-12)
          << "the planted exchanges change nothing";
      const OptimizedGraph found = optimize_exchanges(planted.graph, {.moves = false, .read_later = later});
      EXPECT_EQ(exchanges_of(found.graph), exchanges_of(least)) << planted.graph.to_string() << "became\n"
                                                                << found.graph.to_string();
      EXPECT_EQ(check(found.graph), "");
      EXPECT_LT(test::worst(test::read_in_place(found.graph, planned.mesh, sharded, later), expected), 1e-12);
      const OptimizedGraph moved = optimize_exchanges(planted.graph, {.read_later = later});
      EXPECT_LT(test::worst(test::read_in_place(moved.graph, planned.mesh, sharded, later), expected), 1e-12);
    }
  }
  EXPECT_GT(planted_in_all, 1000);
  std::printf("planted: %zu graphs, %d exchanges\n", all.size(), planted_in_all);
}

/// The reference shows an exchange that is missing.
TEST(Planted, ReferencesShowAnExchangeThatWasNeeded) {
  for (const Planned& planned : planned_graphs()) {
    const StepGraph graph = plan_step(parameters(), planned.row, planned.options).graph;
    const std::string sharded =
        sharded_axis(planned.row).axis.empty() ? planned.row.axes.front().axis : sharded_axis(planned.row).axis;
    std::vector<TensorId> later(parameters().size());
    std::iota(later.begin(), later.end(), 0);
    const test::ElementsRead expected = test::read_in_place(graph, planned.mesh, sharded, later);
    for (const Node& gone : graph.nodes) {
      if (!is_exchange(gone.kind)) continue;
      StepGraph without = graph;
      std::erase_if(without.nodes, [&](const Node& node) { return node.exchange == gone.exchange; });
      EXPECT_GT(test::worst(test::read_in_place(without, planned.mesh, sharded, later), expected), 1e-3)
          << planned.name << " without exchange " << gone.exchange << "\n"
          << graph.to_string();
      EXPECT_NE(same_reads(graph, without, later), "") << planned.name << " without exchange " << gone.exchange;
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
