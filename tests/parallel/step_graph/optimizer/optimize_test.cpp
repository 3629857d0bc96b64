#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>
#include <sinew/parallel/step_graph/optimizer/same_reads.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>
#include <sinew/parallel/tensor/layer_step.hpp>

#include "../figures.hpp"
#include "../graphs.hpp"

namespace sinew::parallel {
namespace {

using test::figures_of;
using testing::HasSubstr;

/// A graph of exchanges in place, written node by node.
struct InPlace {
  StepGraph graph;
  std::int32_t next = 0;

  TensorId tensor(const std::string& name, std::int64_t elements = 256) {
    graph.tensors.push_back({.name = name, .path = name, .elements = elements});
    return static_cast<TensorId>(graph.tensors.size() - 1);
  }
  InPlace& exchange(NodeKind kind, const std::vector<TensorId>& tensors, const std::string& axes = "dp") {
    graph.nodes.push_back({.kind = kind, .tensors = tensors, .axes = axes, .exchange = next});
    graph.nodes.push_back({.kind = NodeKind::Wait, .tensors = tensors, .exchange = next++});
    return *this;
  }
  InPlace& gate(const std::string& name, const std::vector<TensorId>& tensors, bool parts = false) {
    graph.nodes.push_back({.kind = NodeKind::Gate, .name = name, .tensors = tensors, .parts = parts});
    return *this;
  }
  InPlace& signal(const std::string& name, const std::vector<TensorId>& tensors, bool unchanged = false) {
    graph.nodes.push_back({.kind = NodeKind::Signal, .name = name, .tensors = tensors, .unchanged = unchanged});
    return *this;
  }
  InPlace& free(const std::vector<TensorId>& tensors, const std::string& axes = "") {
    graph.nodes.push_back({.kind = NodeKind::Free, .tensors = tensors, .axes = axes});
    return *this;
  }
  /// The exchanges that are left, such as "all_gather dp 0 1".
  std::vector<std::string> left(const ExchangeOptions& options = {.moves = false}) const {
    std::vector<std::string> all;
    for (const Node& node : optimize_exchanges(graph, options).graph.nodes) {
      if (!is_exchange(node.kind)) continue;
      std::string text = fmt::format("{} {}", name_of(node.kind), node.axes);
      for (const TensorId t : node.tensors) text += fmt::format(" {}", t);
      all.push_back(text);
    }
    return all;
  }
};

using Left = std::vector<std::string>;

TEST(Repeated, GathersGo_UnlessTheTensorMayHaveChanged) {
  InPlace g;
  const TensorId a = g.tensor("a"), b = g.tensor("b");
  g.exchange(NodeKind::AllGather, {a, b}).gate("first", {a, b});
  InPlace unchanged = g, written = g;
  unchanged.signal("read", {a, b}, true).exchange(NodeKind::AllGather, {a, b}).gate("second", {a, b});
  EXPECT_EQ(unchanged.left(), (Left{"all_gather dp 0 1"}));
  written.signal("written", {a}).exchange(NodeKind::AllGather, {a, b}).gate("second", {a, b});
  EXPECT_EQ(written.left(), (Left{"all_gather dp 0 1", "all_gather dp 0"})) << "b has not changed";
}

TEST(Repeated, AGatherAlongOtherAxesStays) {
  InPlace g;
  const TensorId a = g.tensor("a");
  g.exchange(NodeKind::AllGather, {a}, "near").exchange(NodeKind::AllGather, {a}, "near-far").gate("read", {a});
  EXPECT_EQ(g.left(), (Left{"all_gather near 0", "all_gather near-far 0"}));
  InPlace h;
  const TensorId b = h.tensor("b");
  h.exchange(NodeKind::AllGather, {b}, "near-far").exchange(NodeKind::AllGather, {b}, "near").gate("read", {b});
  EXPECT_EQ(h.left(), (Left{"all_gather near-far 0"}));
}

TEST(Repeated, AFreeAndItsGatherGo_IfTheEngineDoesNothingInBetween) {
  const auto with = [](bool works) {
    InPlace g;
    const TensorId a = g.tensor("a"), b = g.tensor("b");
    g.exchange(NodeKind::AllGather, {a}).gate("first", {a}).free({a}, "dp");
    if (works) g.signal("b", {b});
    g.exchange(NodeKind::AllGather, {a}).gate("second", {a});
    return g;
  };
  EXPECT_EQ(with(false).left(), (Left{"all_gather dp 0"}));
  EXPECT_EQ(with(true).left(), (Left{"all_gather dp 0", "all_gather dp 0"})) << "the memory was there for the engine";
  const auto nodes = optimize_exchanges(with(false).graph, {.moves = false}).graph.nodes;
  EXPECT_EQ(std::ranges::count(nodes, NodeKind::Free, &Node::kind), 0);
}

TEST(Repeated, AFreeWhoseMemoryIsAskedForStays) {
  InPlace g;
  const TensorId a = g.tensor("a"), b = g.tensor("b");
  g.exchange(NodeKind::AllGather, {a}).gate("first", {a}).free({a}, "dp").exchange(NodeKind::AllGather, {b});
  g.graph.nodes[g.graph.nodes.size() - 2].room_of = a;
  g.exchange(NodeKind::AllGather, {a}).gate("second", {a, b});
  EXPECT_EQ(g.left(), (Left{"all_gather dp 0", "all_gather dp 1", "all_gather dp 0"}));
}

TEST(Repeated, WhatNobodyReadsGoes) {
  InPlace g;
  const TensorId p = g.tensor("p"), d = g.tensor("d");
  g.exchange(NodeKind::AllGather, {p}).free({p}, "dp").signal("d", {d}).exchange(NodeKind::AllReduce, {d});
  EXPECT_EQ(g.left(), (Left{"all_reduce dp 1"})) << "p is freed unread; the engine may read d after the step";
  EXPECT_EQ(g.left({.moves = false, .read_later = std::vector<TensorId>{p}}), Left{});
}

TEST(Repeated, SumsAreMadeOnce) {
  InPlace g;
  const TensorId d = g.tensor("d");
  g.signal("d", {d}).exchange(NodeKind::AllReduce, {d}).exchange(NodeKind::AllReduce, {d}).gate("read", {d});
  EXPECT_EQ(g.left(), (Left{"all_reduce dp 0"}));
  InPlace other;
  const TensorId e = other.tensor("e");
  other.signal("e", {e}).exchange(NodeKind::AllReduce, {e}, "dp").exchange(NodeKind::AllReduce, {e}, "cp");
  EXPECT_EQ(other.left(), (Left{"all_reduce dp 0", "all_reduce cp 0"}));
}

TEST(Repeated, SumsThatAreCutOrGatheredBecomeOneExchange) {
  const auto sum = [](NodeKind first, NodeKind second) {
    InPlace g;
    const TensorId d = g.tensor("d");
    g.signal("d", {d}).exchange(first, {d}).exchange(second, {d}).gate("read", {d}, second == NodeKind::ReduceScatter);
    return g.left();
  };
  EXPECT_EQ(sum(NodeKind::AllReduce, NodeKind::ReduceScatter), (Left{"reduce_scatter dp 0"}));
  EXPECT_EQ(sum(NodeKind::ReduceScatter, NodeKind::AllGather), (Left{"all_reduce dp 0"}));
  InPlace freed;
  const TensorId d = freed.tensor("d");
  freed.signal("d", {d}).exchange(NodeKind::AllReduce, {d}).free({d}, "dp").gate("read", {d}, true);
  EXPECT_EQ(freed.left(), (Left{"reduce_scatter dp 0"}));
  InPlace read;
  const TensorId e = read.tensor("e");
  read.signal("e", {e}).exchange(NodeKind::AllReduce, {e}).gate("whole", {e}).exchange(NodeKind::ReduceScatter, {e});
  read.gate("parts", {e}, true);
  EXPECT_EQ(read.left(), (Left{"all_reduce dp 0"})) << "a gate reads the whole sum, and the rank has its part";
}

TEST(SameReads, NamesTheGateAndTheTensor) {
  InPlace g;
  const TensorId p = g.tensor("p"), d = g.tensor("d");
  g.exchange(NodeKind::AllGather, {p}).gate("forward", {p}).signal("d", {d}).exchange(NodeKind::AllReduce, {d});
  g.gate("optimizer", {d});
  const auto without = [&](NodeKind kind) {
    StepGraph graph = g.graph;
    const auto node = std::ranges::find(graph.nodes, kind, &Node::kind);
    const std::int32_t exchange = node->exchange;
    if (exchange < 0) {
      graph.nodes.erase(node);
    } else {
      std::erase_if(graph.nodes, [&](const Node& n) { return n.exchange == exchange; });
    }
    return same_reads(g.graph, graph);
  };
  EXPECT_EQ(same_reads(g.graph, g.graph), "");
  EXPECT_EQ(without(NodeKind::AllGather), "gate after the step: 'p' is not whole any more");
  EXPECT_THAT(without(NodeKind::AllReduce), HasSubstr("'d' is summed over other axes"));
  EXPECT_THAT(without(NodeKind::Signal), HasSubstr("'d' comes from"));
}

TEST(Optimize, RefusesGraphsThatCannotRun) {
  InPlace g;
  const TensorId a = g.tensor("a");
  g.exchange(NodeKind::AllGather, {a});
  g.graph.nodes.pop_back();
  try {
    (void)optimize_exchanges(g.graph, {});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("all_gather 0: nothing waits for it"));
  }
  LayerGraph model(Factorisation({{"tp", 2}}), {});
  model.rows("x", 4, 4);
  EXPECT_THROW((void)layer_step(model), Error) << "without an output";
  model.output("out", model.rows("y", 4, 4));
  EXPECT_THROW((void)layer_step(model, {.backward = "gradient of y"}), Error) << "no such signal";
}

TEST(Optimize, MovesAheadWithinTheBudget) {
  const StepGraph graph = test::gathered_parameters({1 << 18, 1 << 18, 1 << 18, 1 << 18});
  EXPECT_EQ(figures_of(optimize_exchanges(graph, {}).graph).bytes_in_flight, 4 << 20);
  for (const std::int64_t mib : {1, 2, 3}) {
    const OptimizedGraph found = optimize_exchanges(graph, {.most_in_flight = mib << 20});
    EXPECT_EQ(check(found.graph), "");
    EXPECT_EQ(figures_of(found.graph).bytes_in_flight, mib << 20);
    EXPECT_EQ(found.report.count(ExchangeChange::Moved), mib == 1 ? 0 : 3) << found.report.to_string(found.graph);
  }
}

/// Gathered activations count until the last compute that has read them.
TEST(Optimize, MovesGathersOfComputesWithinTheBudget) {
  LayerGraph model(Factorisation({{"tp", 2}}), {});
  std::vector<TensorId> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(model.input(fmt::format("x{}", i), {16, 16}, Shard{1, {}}));
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("norm {}", i);
    model.output(name + " out", model.norm(name, model.moved(parts[static_cast<std::size_t>(i)], Replicate{})));
  }
  EXPECT_EQ(figures_of(layer_evaluation(model).graph).bytes_in_flight, 4 << 10);
  const OptimizedComputes found = layer_evaluation(model, {.most_in_flight = 2 << 10});
  EXPECT_EQ(check(found.graph), "");
  EXPECT_EQ(figures_of(found.graph).bytes_in_flight, 2 << 10) << found.graph.to_string();
}

TEST(Optimize, JoinsNeighboursThatMakeTensorsOfOthers) {
  LayerGraph model(Factorisation({{"tp", 2}}), {});
  std::vector<TensorId> whole;
  for (int i = 0; i < 4; ++i) {
    const TensorId x = model.input(fmt::format("x{}", i), {16, 16}, Shard{1, {}});
    whole.push_back(model.moved(x, Replicate{}));
  }
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("norm {}", i);
    model.output(name + " out", model.norm(name, whole[static_cast<std::size_t>(i)]));
  }
  EXPECT_EQ(figures_of(layer_evaluation(model).graph).exchanges, 4);
  const OptimizedComputes found = layer_evaluation(model, {.merge = ByteBuckets{.bytes = 2 << 10}});
  EXPECT_EQ(check(found.graph), "");
  EXPECT_EQ(figures_of(found.graph).exchanges, 2) << found.graph.to_string();
  EXPECT_EQ(found.report.count(ExchangeChange::Merged), 2);
}

TEST(Optimize, ReportsWhatWentAndWhy_WithBytesAndTime) {
  InPlace g;
  const TensorId a = g.tensor("a", 1 << 18), b = g.tensor("b", 1 << 18), p = g.tensor("p", 1 << 18);
  g.signal("a", {a}).exchange(NodeKind::AllReduce, {a}).signal("b", {b}).exchange(NodeKind::AllReduce, {b});
  g.exchange(NodeKind::AllReduce, {b}).signal("last", {}).gate("optimizer", {a, b});
  g.exchange(NodeKind::AllGather, {p}, "tp");
  const ExchangePrices prices{.ranks = [](std::string_view axes) { return axes == "dp" ? 4 : 2; },
                              .seconds = [](NodeKind, std::string_view,
                                            std::int64_t bytes) { return 1e-4 + static_cast<double>(bytes) / 1e9; }};
  const OptimizedGraph found = optimize_exchanges(
      g.graph, {.merge = ByteBuckets{.first_bytes = 4 << 20, .last_bytes = 4 << 20}, .prices = prices});
  EXPECT_EQ(found.report.to_string(found.graph),
            "dp: 3 exchanges, 18MiB, 3.45 ms -> 1 exchange, 12MiB, 2.20 ms\n"
            "tp: 1 exchange, 1MiB, 1.15 ms\n"
            "removed all_reduce over dp of b (6MiB): it is summed already, and nothing has changed it since, 1.15 ms "
            "saved\n"
            "merged all_reduce over dp of a and b (12MiB): 2 exchanges in one, 100.0 us saved\n"
            "moved all_reduce over dp of a and b (12MiB): is waited for 1 gate or signal later, up to 2.20 ms "
            "hidden\n"
            "moved all_gather over tp of p (1MiB): starts 2 gates and signals earlier, up to 1.15 ms hidden\n");
}

TEST(Optimize, StepsOfDataParallelismHaveAReport) {
  std::vector<DataParameter> parameters;
  for (int i = 0; i < 4; ++i)
    parameters.push_back({.path = fmt::format("blocks.{}.weight", i), .elements = 1024, .unit = "all"});
  const StepPlan plan =
      plan_step(parameters, data_row("ddp", {"dp"}), {}, {}, {.ranks = [](std::string_view) { return 2; }});
  const std::string text = plan.report.to_string(plan.graph);
  EXPECT_THAT(text, HasSubstr("dp: 4 exchanges, 32KiB -> 1 exchange, 32KiB\n"));
  EXPECT_THAT(text, HasSubstr("merged all_reduce over dp of blocks.3.weight gradient and 3 others (32KiB): "
                              "4 exchanges in one\n"));
}

}  // namespace
}  // namespace sinew::parallel
