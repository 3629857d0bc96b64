#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

#include "graphs.hpp"

namespace sinew::parallel {
namespace {

using test::gathered_parameters;
using test::summed_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Writes down what it is asked for; every exchange is over at once.
class Recorder : public StepActions {
 public:
  std::vector<std::string> log;

  Work start(const Node& exchange) override {
    log.push_back("start " + std::to_string(exchange.exchange));
    return {};
  }
  void free(const Node& node) override { log.push_back("free " + std::to_string(node.tensors.front())); }
};

/// "" where nothing is thrown.
template <class F>
std::string thrown_by(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return {};
}

struct Running {
  explicit Running(StepGraph graph) : runner(std::move(graph), actions) {}
  void signal(const std::string& name) { runner.signal(runner.find(NodeKind::Signal, name)); }
  void gate(const std::string& name) { runner.gate(runner.find(NodeKind::Gate, name)); }

  Recorder actions;
  StepRunner runner;
};

TEST(StepRunner, StartsInTheOrderOfTheGraph_WhateverIsReportedFirst) {
  Running step(wait_late(issue_early(summed_gradients({8, 8, 8}))));
  step.signal("g0");
  step.signal("g1");
  EXPECT_THAT(step.actions.log, ElementsAre());
  step.signal("g2");
  EXPECT_THAT(step.actions.log, ElementsAre("start 0", "start 1", "start 2"));
  step.gate("optimizer");
  step.runner.finish();
}

TEST(StepRunner, FreesWhenTheLastReaderIsThrough) {
  Running step(gathered_parameters({8, 8}));
  step.gate("forward p0");
  EXPECT_THAT(step.actions.log, ::testing::Not(::testing::Contains("free 0")));
  step.signal("forward done p0");
  EXPECT_EQ(step.actions.log.back(), "free 0");
  step.gate("forward p1");
  step.signal("forward done p1");
  EXPECT_EQ(step.actions.log.back(), "free 1");
  step.runner.finish();
}

TEST(StepRunner, RunsStepAfterStep) {
  Running step(summed_gradients({8, 8}));
  for (int i = 0; i < 3; ++i) {
    step.signal("g1");
    step.signal("g0");
    EXPECT_THAT(step.runner.reported(), ElementsAre(0, 3));
    step.gate("optimizer");
    step.runner.finish();
  }
  EXPECT_EQ(step.actions.log.size(), 6U);
}

TEST(StepRunner, CountsReportsOfAParameterThatIsUsedTwice) {
  StepGraph graph = summed_gradients({8});
  graph.nodes[0].times = 2;
  Running step(graph);
  step.signal("g0");
  EXPECT_THAT(step.actions.log, ElementsAre());
  EXPECT_THAT(thrown_by([&] { step.gate("optimizer"); }), HasSubstr("not reported: 'g0' (1 of 2 times)"));
  step.signal("g0");
  EXPECT_THAT(step.actions.log, ElementsAre("start 0"));
}

/// The gate of the second unit needs its exchange, which waits for no report; the one before it in order does.
TEST(StepRunner, NamesWhatTheExchangeBeforeWaitsFor) {
  StepGraph graph = summed_gradients({8});
  const StepGraph gathered = gathered_parameters({8});
  const auto tensors = static_cast<TensorId>(graph.tensors.size());
  graph.tensors.insert(graph.tensors.end(), gathered.tensors.begin(), gathered.tensors.end());
  std::erase_if(graph.nodes, [](const Node& n) { return n.kind == NodeKind::Gate; });
  for (Node node : gathered.nodes) {
    for (TensorId& t : node.tensors) t += tensors;
    if (node.exchange >= 0) ++node.exchange;
    graph.nodes.push_back(node);
  }
  ASSERT_EQ(check(graph), "");
  Running step(graph);
  EXPECT_THAT(thrown_by([&] { step.gate("forward p0"); }), HasSubstr("'forward p0' cannot begin: not reported: 'g0'"));
}

TEST(StepRunner, GivesAStepUpWhereTheOthersAre) {
  Running step(summed_gradients({8, 8, 8}));
  step.signal("g2");
  step.runner.abandon();
  EXPECT_THAT(step.actions.log, ElementsAre("start 0", "free 2", "start 1", "free 1", "start 2", "free 0"));
  EXPECT_TRUE(step.runner.idle());
  step.signal("g2");
  EXPECT_EQ(step.actions.log.back(), "start 0");
}

TEST(StepRunner, NamesWhatWasReportedTooOften) {
  Running step(summed_gradients({8, 8}));
  step.signal("g1");
  EXPECT_THAT(thrown_by([&] { step.signal("g1"); }), HasSubstr("'g1' was reported 2 times, expected 1 in a step"));
}

TEST(StepRunner, NamesAllThatWasNotReported_AndGoesOnWithIt) {
  Running step(bucket(summed_gradients({8, 8, 8}), ByteBuckets{}));
  step.signal("g1");
  const std::string wrong = thrown_by([&] { step.gate("optimizer"); });
  EXPECT_THAT(wrong, HasSubstr("'g0'"));
  EXPECT_THAT(wrong, HasSubstr("'g2'"));
  EXPECT_THAT(wrong, ::testing::Not(HasSubstr("'g1'")));
  EXPECT_THAT(thrown_by([&] { step.runner.finish(); }), HasSubstr("not reported"));
  for (const char* g : {"g0", "g2"}) step.signal(g);
  EXPECT_EQ(thrown_by([&] { step.runner.finish(); }), "");
}

TEST(StepRunner, RefusesAGraphThatCannotRun_AndUnknownNames) {
  StepGraph graph = gathered_parameters({8});
  std::swap(graph.nodes[1], graph.nodes[2]);
  EXPECT_THAT(thrown_by([&] { Running step(graph); }), HasSubstr("'p0' is under way"));
  Running step(summed_gradients({8}));
  EXPECT_THAT(thrown_by([&] { step.signal("g9"); }), HasSubstr("there is no signal 'g9'"));
}

}  // namespace
}  // namespace sinew::parallel
