#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>
#include <sinew/parallel/step_graph/placed/traffic.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>
#include <support/worlds.hpp>

#include "../placed/placed_run.hpp"
#include "../placed/random_graphs.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::Array;

/// On these ranks, against one process, before and after the pass.
void require_same_results(World& world, const Factorisation& mesh, const StepGraph& graph, const std::string& which) {
  const StepGraph after = remove_redundant_exchanges(graph, mesh);
  const std::string wrong = check_placements(after, mesh) + same_values(graph, after, mesh);
  require(wrong.empty(), which + wrong);
  const StepTraffic was = traffic_of(graph, mesh), is = traffic_of(after, mesh);
  require(is.bytes <= was.bytes, fmt::format("{}: {} became {}", which, was.to_string(), is.to_string()));
  const std::vector<Array> given = test::given(graph, 1);
  const auto expected = test::parts_of(graph, mesh, world.rank(), test::run_whole(graph, given));
  for (const StepGraph* g : {&graph, &after}) {
    const double worst = test::worst(test::run_on_ranks(world, *g, mesh, given), expected);
    require(worst < 1e-12, fmt::format("{}, {} the pass: off by {}\n{}", which, g == &graph ? "before" : "after", worst,
                                       g->to_string()));
  }
}

TEST(RedundantValues, OfModelsStayWhatTheyWere) {
  for (const int ranks : {1, 2, 3, 4}) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      const Factorisation mesh({{"tp", ranks}});
      for (const bool sequence_parallel : {false, true}) {
        LayerGraph g(mesh, {.sequence_parallel = sequence_parallel, .dtype = DType::F64});
        TensorId x = g.rows("x", 5, 12);
        g.output("mlp", g.mlp("mlp", x, 7));
        g.output("attention", g.attention_block("attention", x, 3));
        x = g.residual("first", x, g.attention_block("core", g.norm("norm1", x), 4));
        g.output("block", g.residual("second", x, g.mlp("deep", g.norm("norm2", x), 9)));
        require_same_results(world, mesh, with_backward(g.graph(), mesh),
                             fmt::format("{} ranks, sequence {}", ranks, sequence_parallel));
      }
    });
  }
}

TEST(RedundantValues, OfRandomGraphsStayWhatTheyWere) {
  for (const int ranks : {2, 3, 4}) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      const Factorisation mesh({{"tp", ranks}});
      for (unsigned seed = 0; seed < 80; ++seed)
        require_same_results(world, mesh, test::random_graph(seed, mesh),
                             fmt::format("{} ranks, seed {}", ranks, seed));
    });
  }
}

/// Of <out, its gradient> by differences, for some elements of all that the engine gives.
TEST(WithBackward, MakesTheGradient) {
  const Factorisation mesh({{"tp", 2}});
  LayerGraph g(mesh, {.dtype = DType::F64});
  TensorId x = g.rows("x", 3, 8);
  x = g.residual("first", x, g.attention_block("core", g.norm("norm1", x), 2));
  g.output("out", g.residual("second", x, g.mlp("mlp", g.norm("norm2", x), 6)));
  const StepGraph graph = with_backward(g.graph(), mesh);
  const auto tensor_of = [&](NodeKind kind, const std::string& name) {
    const auto is_it = [&](const Node& n) { return n.kind == kind && n.name == name; };
    return static_cast<std::size_t>(std::ranges::find_if(graph.nodes, is_it)->tensors.front());
  };
  const std::size_t out = tensor_of(NodeKind::Gate, "out"), dout = tensor_of(NodeKind::Signal, "gradient of out");
  const std::vector<Array> given = test::given(graph, 2), values = test::run_whole(graph, given);
  const auto loss = [&](std::vector<Array> changed) {
    changed = test::run_whole(graph, std::move(changed));
    return std::inner_product(changed[out].data.begin(), changed[out].data.end(), changed[dout].data.begin(), 0.0);
  };
  for (const Node& node : g.graph().nodes) {
    if (node.kind != NodeKind::Signal) continue;
    const std::size_t gradient = tensor_of(NodeKind::Gate, "gradient of " + node.name);
    for (const std::size_t i : {0, 3, 7}) {
      std::vector<Array> more = given, less = given;
      more[static_cast<std::size_t>(node.tensors[0])].data[i] += 1e-5;
      less[static_cast<std::size_t>(node.tensors[0])].data[i] -= 1e-5;
      EXPECT_NEAR(values[gradient].data[i], (loss(more) - loss(less)) / 2e-5, 1e-6) << node.name << " " << i;
    }
  }
}

/// The check has something to find: without the gather in front of a norm each rank norms its columns alone.
TEST(RedundantValues, ShowAnExchangeThatWasNeeded) {
  const Factorisation mesh({{"tp", 2}});
  LayerGraph g(mesh, {.dtype = DType::F64});
  const TensorId x = g.input("x", {4, 8}, Shard{1, {}});
  g.output("out", g.norm("norm", g.moved(x, Replicate{})));
  StepGraph wrong = g.graph();
  const auto is_gather = [](const Node& n) { return n.kind == NodeKind::AllGather; };
  std::erase_if(wrong.nodes, is_gather);
  const auto norm = std::ranges::find(wrong.nodes, NodeKind::Compute, &Node::kind);
  norm->operands[0] = x;
  EXPECT_EQ(check_placements(wrong, mesh),
            "compute norm: 'x' along tp: found Shard(1), expected Replicate: 'o' must be whole");

  // As a rewrite that looks only at what is gathered and split would have it.
  const TensorId y = norm->tensors[0], gain = norm->operands[1];
  for (const TensorId t : {y, gain}) {
    StepTensor& cut = wrong.tensors[static_cast<std::size_t>(t)];
    cut.placements = Placements({{"tp", Shard{static_cast<int>(cut.shape.size()) - 1, {}}}});
  }
  on_threads(2, only("inproc"), [&](World& world) {
    const std::vector<Array> given = test::given(wrong, 1);
    const auto expected = test::parts_of(wrong, mesh, world.rank(), test::run_whole(wrong, given));
    require(test::worst(test::run_on_ranks(world, wrong, mesh, given), expected) > 1e-3, "the values must differ");
  });
}

}  // namespace
}  // namespace sinew::parallel
