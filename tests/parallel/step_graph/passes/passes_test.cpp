#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

#include "../figures.hpp"
#include "../graphs.hpp"

namespace sinew::parallel {
namespace {

using test::figures_of;
using test::gathered_parameters;
using test::summed_gradients;

constexpr std::int64_t kMiB = 1 << 18;  // of f32

std::vector<std::vector<TensorId>> travelling(const StepGraph& graph) {
  std::vector<std::vector<TensorId>> all;
  for (const Node& node : graph.nodes) {
    if (is_exchange(node.kind)) all.push_back(node.tensors);
  }
  return all;
}

std::size_t place_of(const StepGraph& graph, NodeKind kind, TensorId tensor) {
  const auto is_it = [&](const Node& n) { return n.kind == kind && std::ranges::count(n.tensors, tensor) > 0; };
  return static_cast<std::size_t>(std::ranges::find_if(graph.nodes, is_it) - graph.nodes.begin());
}

TEST(Buckets, FillBytes_FirstAndLastSmaller_InReverseOrder) {
  const StepGraph eight = summed_gradients({kMiB / 2, kMiB / 2, kMiB, kMiB, kMiB, kMiB, kMiB / 2, kMiB / 2});
  const auto of = [&](std::int64_t last_bytes) {
    const StepGraph graph =
        bucket(eight, ByteBuckets{.bytes = 3 << 20, .first_bytes = 1 << 20, .last_bytes = last_bytes});
    EXPECT_EQ(check(graph), "");
    return travelling(graph);
  };
  EXPECT_EQ(of(1 << 20), (std::vector<std::vector<TensorId>>{{7, 6}, {5, 4, 3}, {2}, {1, 0}}));
  EXPECT_EQ(of(1), (std::vector<std::vector<TensorId>>{{7, 6}, {5, 4, 3}, {2, 1}, {0}})) << "one at least";
  EXPECT_EQ(of(3 << 20), (std::vector<std::vector<TensorId>>{{7, 6}, {5, 4, 3}, {2, 1, 0}}));
}

TEST(Buckets, LeaveATensorLongerThanThemAlone) {
  const StepGraph graph = bucket(summed_gradients({8, 5 * kMiB, 8}), ByteBuckets{.bytes = 1 << 20});
  EXPECT_EQ(travelling(graph), (std::vector<std::vector<TensorId>>{{2}, {1}, {0}}));
}

TEST(Buckets, StartWhenTheirLastTensorIsThere) {
  const StepGraph graph = bucket(summed_gradients({8, 8, 8}), ByteBuckets{});
  EXPECT_EQ(check(graph), "");
  EXPECT_GT(place_of(graph, NodeKind::AllReduce, 2), place_of(graph, NodeKind::Signal, 0));
  EXPECT_EQ(figures_of(graph).exchanges, 1);
}

TEST(Buckets, FollowLayersAndBlocks) {
  const StepGraph graph = summed_gradients({8, 8, 8, 8});
  EXPECT_EQ(travelling(bucket(graph, LayerBuckets{})), (std::vector<std::vector<TensorId>>{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(travelling(bucket(graph, BlockBuckets{})), (std::vector<std::vector<TensorId>>{{3, 2}, {1, 0}}));
  EXPECT_EQ(travelling(bucket(graph, NoBuckets{})), travelling(graph));
}

TEST(Buckets, KeepDtypesApart) {
  StepGraph graph = summed_gradients({8, 8, 8, 8});
  graph.tensors[1].dtype = graph.tensors[3].dtype = DType::F64;
  const StepGraph together = bucket(graph, ByteBuckets{});
  EXPECT_EQ(check(together), "");
  EXPECT_EQ(figures_of(together).exchanges, 2);
}

TEST(Buckets, GatherNothingAcrossTheGateThatReadsIt) {
  // p0 is freed before p1 is read; both may come together before, as nothing of p1 needs the forward pass of p0.
  const StepGraph graph = bucket(gathered_parameters({8, 8}), ByteBuckets{});
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(figures_of(graph).exchanges, 1);
  EXPECT_LT(place_of(graph, NodeKind::Wait, 1), place_of(graph, NodeKind::Gate, 0));

  // A tensor that travels twice cannot join its own bucket.
  StepGraph twice = gathered_parameters({8});
  StepGraph again = gathered_parameters({8});
  for (Node& node : again.nodes) {
    if (node.exchange >= 0) ++node.exchange;
    twice.nodes.push_back(node);
  }
  ASSERT_EQ(check(twice), "");
  EXPECT_EQ(figures_of(bucket(twice, ByteBuckets{})).exchanges, 2);
}

TEST(Timing, StartsEarlyAndWaitsLate) {
  const StepGraph graph = wait_late(issue_early(summed_gradients({8, 8, 8})));
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(figures_of(graph).exposed, 1);  // the last one has nothing left to hide behind
  for (TensorId t = 0; t < 3; ++t) {
    EXPECT_EQ(place_of(graph, NodeKind::AllReduce, t), place_of(graph, NodeKind::Signal, t) + 1);
    EXPECT_GT(place_of(graph, NodeKind::Wait, t), place_of(graph, NodeKind::Signal, 0));
  }
}

TEST(Timing, GathersAllAheadWhereNothingLimitsIt) {
  const StepGraph graph = issue_early(gathered_parameters({kMiB, kMiB, kMiB}));
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(figures_of(graph).bytes_in_flight, 3 << 20);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(graph.nodes[i].kind, NodeKind::AllGather);
}

TEST(Limit, HoldsGathersBackUntilOthersAreFreed) {
  const StepGraph ahead = issue_early(gathered_parameters({kMiB, kMiB, kMiB, kMiB, kMiB}));
  for (const std::int64_t mib : {1, 2, 3, 5}) {
    const StepGraph graph = limit_in_flight(ahead, mib << 20);
    EXPECT_EQ(check(graph), "");
    EXPECT_EQ(figures_of(graph).bytes_in_flight, mib << 20);
    EXPECT_EQ(travelling(graph), travelling(ahead));
  }
}

TEST(Limit, StartsWhatIsNeededAtOnceAllTheSame) {
  const StepGraph graph = limit_in_flight(issue_early(gathered_parameters({4 * kMiB, kMiB})), 1 << 20);
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(figures_of(graph).bytes_in_flight, 4 << 20);
}

TEST(Limit, CountsSumsUntilTheirWait) {
  const StepGraph ahead = wait_late(issue_early(summed_gradients({kMiB, kMiB, kMiB})));
  EXPECT_EQ(figures_of(ahead).bytes_in_flight, 3 << 20);
}

TEST(DropSync, LeavesGatesAndSignals) {
  const StepGraph graph = drop_sync(bucket(summed_gradients({8, 8, 8}), ByteBuckets{}), {0, 1, 2});
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(graph.nodes.size(), 4U);
  EXPECT_EQ(figures_of(graph).exchanges, 0);
}

TEST(DropSync, LetsTheOthersOfABucketTravel) {
  const StepGraph graph = drop_sync(bucket(summed_gradients({8, 8, 8}), ByteBuckets{}), {1});
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(travelling(graph), (std::vector<std::vector<TensorId>>{{2, 0}}));
}

/// Any order of passes on any graph leaves one that can run and moves every byte once.
TEST(Passes, KeepWhatAGraphMoves_WhateverTheirOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int64_t> elements(1 + random() % 9);
    for (std::int64_t& e : elements) e = 1 + static_cast<std::int64_t>(random() % (2 * kMiB));
    StepGraph graph = random() % 2 == 0 ? summed_gradients(elements) : gathered_parameters(elements);
    const test::StepFigures before = figures_of(graph);
    for (int pass = 0; pass < 4; ++pass) {
      switch (random() % 5) {
        case 0: graph = bucket(graph, ByteBuckets{.bytes = 1 << 20, .first_bytes = 1 << 18}); break;
        case 1: graph = bucket(graph, BlockBuckets{}); break;
        case 2: graph = issue_early(graph); break;
        case 3: graph = wait_late(graph); break;
        default: graph = limit_in_flight(graph, 1 << 20);
      }
      ASSERT_EQ(check(graph), "") << "round " << round << "\n" << graph.to_string();
      ASSERT_EQ(figures_of(graph).bytes, before.bytes);
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
