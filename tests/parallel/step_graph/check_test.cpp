#include <string>

#include <gmock/gmock.h>

#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

#include "graphs.hpp"

namespace sinew::parallel {
namespace {

using test::gathered_parameters;
using test::summed_gradients;
using ::testing::HasSubstr;

TEST(Check, AcceptsWhatStrategiesMake) {
  EXPECT_EQ(check(summed_gradients({8, 8})), "");
  EXPECT_EQ(check(gathered_parameters({8, 8})), "");
  EXPECT_EQ(check({}), "");
}

TEST(Check, FindsAGateThatReadsTooEarly) {
  StepGraph graph = gathered_parameters({8});
  std::swap(graph.nodes[1], graph.nodes[2]);
  EXPECT_THAT(check(graph), HasSubstr("gate forward p0: 'p0' is under way"));
}

TEST(Check, FindsAReadOfWhatIsFreed) {
  StepGraph graph = gathered_parameters({8});
  graph.nodes.push_back({.kind = NodeKind::Gate, .name = "backward p0", .tensors = {0}});
  EXPECT_THAT(check(graph), HasSubstr("gate backward p0: 'p0' was freed"));
}

TEST(Check, FindsAnExchangeThatNobodyWaitsFor) {
  StepGraph graph = summed_gradients({8});
  graph.nodes.erase(graph.nodes.begin() + 2);
  graph.nodes.pop_back();
  EXPECT_THAT(check(graph), HasSubstr("all_reduce 0: nothing waits for it"));
}

TEST(Check, FindsAWaitWithoutItsExchange) {
  StepGraph graph = summed_gradients({8});
  graph.nodes.erase(graph.nodes.begin() + 1);
  EXPECT_THAT(check(graph), HasSubstr("wait 0: no such exchange is under way"));
}

TEST(Check, FindsTwoExchangesOfOneTensorAtOnce) {
  StepGraph graph = summed_gradients({8});
  graph.nodes.insert(graph.nodes.begin() + 2,
                     {.kind = NodeKind::AllReduce, .tensors = {0}, .axes = "tp", .exchange = 1});
  EXPECT_THAT(check(graph), HasSubstr("all_reduce 1: 'g0' is under way"));
}

TEST(Check, FindsAGradientWrittenWhileItTravels) {
  StepGraph graph = summed_gradients({8});
  graph.nodes.insert(graph.nodes.begin() + 2, {.kind = NodeKind::Signal, .name = "g0 again", .tensors = {0}});
  EXPECT_THAT(check(graph), HasSubstr("signal g0 again: 'g0' is under way"));
}

TEST(Check, FindsNumbersThatDoNotExist_AndMixedDtypes) {
  StepGraph graph = summed_gradients({8, 8});
  graph.nodes[0].tensors = {7};
  EXPECT_THAT(check(graph), HasSubstr("there is no tensor 7, only 2"));
  graph = summed_gradients({8, 8});
  graph.tensors[0].dtype = DType::BF16;
  graph.nodes[1].tensors = {0, 1};
  EXPECT_THAT(check(graph), HasSubstr("'g1' is of another dtype"));
}

TEST(Needs, FollowFromTensors) {
  const auto needs = needs_of(summed_gradients({8, 8}));
  // signal g1, all_reduce 0, wait 0, signal g0, all_reduce 1, wait 1, gate
  EXPECT_EQ(needs, (std::vector<std::vector<std::int32_t>>{{}, {0}, {1}, {}, {3}, {4}, {2, 5}}));
}

TEST(Needs, LetNoEngineWaitForItself) {
  // all_gather, wait, gate, signal, free: the gate waits for the wait only, the free for the signal too.
  const auto needs = needs_of(gathered_parameters({8}));
  EXPECT_EQ(needs, (std::vector<std::vector<std::int32_t>>{{}, {0}, {1}, {}, {1, 3}}));
}

}  // namespace
}  // namespace sinew::parallel
