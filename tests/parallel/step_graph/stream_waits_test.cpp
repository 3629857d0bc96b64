#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/runtime/engine.hpp>
#include <sinew/parallel/step_graph/runner.hpp>
#include <sinew/parallel/step_graph/stream_waits.hpp>

#include "graphs.hpp"

namespace sinew::parallel {
namespace {

using test::summed_gradients;

/// Exchanges on a device. They end when the test says so, and the host does not wait for them.
class OpenExchanges : public StepActions {
 public:
  Work start(const Node&) override {
    calls_.push_back(&slab_.open([](PendingCall&) {}));
    return Work(*calls_.back());
  }
  void await(Work&) override {}
  void free(const Node&) override {}

  /// Ends the exchanges that have not ended. why: empty for success.
  void end(const std::string& why = {}) {
    for (PendingCall* call : calls_) call->finish(why.empty() ? Status() : Status(Code::PeerLost, why));
    calls_.clear();
  }

 private:
  Engine engine_{false};
  CallSlab slab_{engine_, std::chrono::seconds(60), false};
  std::vector<PendingCall*> calls_;
};

/// Runs a pass up to its end.
void pass(StepRunner& runner) {
  runner.signal(runner.find(NodeKind::Signal, "g0"));
  runner.gate(runner.find(NodeKind::Gate, "optimizer"));
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

class StreamWaitsOfARunner : public testing::Test {
 protected:
  StreamWaitsOfARunner() : runner_(summed_gradients({8}), exchanges_) {}
  ~StreamWaitsOfARunner() override { exchanges_.end(); }

  OpenExchanges exchanges_;
  StepRunner runner_;
};

TEST_F(StreamWaitsOfARunner, Finish_LeavesTheExchangesOfThisStepOpen) {
  pass(runner_);
  runner_.finish();
  pass(runner_);
  exchanges_.end();
  runner_.finish();
  exchanges_.waits().settle();
}

TEST_F(StreamWaitsOfARunner, AFailureAfterTheStep_IsThrownByTheNextFinish_AndFromThenOn) {
  pass(runner_);
  runner_.finish();
  exchanges_.end("rank 1 is lost");
  pass(runner_);
  exchanges_.end();
  EXPECT_EQ(error_of([&] { runner_.finish(); }), "rank 1 is lost");
  pass(runner_);
  exchanges_.end();
  EXPECT_EQ(error_of([&] { runner_.finish(); }), "rank 1 is lost");
  EXPECT_EQ(error_of([&] { exchanges_.waits().require_sound(); }), "rank 1 is lost");
}

TEST_F(StreamWaitsOfARunner, AFailureAfterTheLastStep_IsThrownBySettle) {
  pass(runner_);
  runner_.finish();
  exchanges_.end("rank 1 is lost");
  EXPECT_EQ(error_of([&] { exchanges_.waits().settle(); }), "rank 1 is lost");
}

TEST_F(StreamWaitsOfARunner, AFailureAfterTheStep_IsThrownByTheRunnerOfAnotherKindOfPass) {
  pass(runner_);
  runner_.finish();
  exchanges_.end("rank 1 is lost");
  StepRunner other(summed_gradients({8}), exchanges_);
  pass(other);
  exchanges_.end();
  EXPECT_EQ(error_of([&] { other.finish(); }), "rank 1 is lost");
}

TEST_F(StreamWaitsOfARunner, AFailureOfAnEarlierStep_IsRemembered_IfTheNextStepIsGivenUp) {
  pass(runner_);
  runner_.finish();
  exchanges_.end("rank 1 is lost");
  pass(runner_);
  exchanges_.end();
  runner_.abandon();
  EXPECT_EQ(error_of([&] { exchanges_.waits().require_sound(); }), "rank 1 is lost");
}

TEST_F(StreamWaitsOfARunner, AFailureOfAStepThatIsGivenUp_IsForgotten) {
  pass(runner_);
  exchanges_.end("rank 1 is lost");
  EXPECT_EQ(error_of([&] { exchanges_.waits().settle(); }), "rank 1 is lost");
  EXPECT_FALSE(exchanges_.waits().has_failed(false)) << "earlier steps were sound";
  EXPECT_TRUE(exchanges_.waits().has_failed(true));
  runner_.abandon();
  exchanges_.waits().settle();
  EXPECT_FALSE(exchanges_.waits().has_failed(true));
}

TEST_F(StreamWaitsOfARunner, AFailureThatSettleHasFound_IsThrownByFinish_AndFromThenOn) {
  pass(runner_);
  exchanges_.end("rank 1 is lost");
  EXPECT_EQ(error_of([&] { exchanges_.waits().settle(); }), "rank 1 is lost");
  EXPECT_EQ(error_of([&] { runner_.finish(); }), "rank 1 is lost");
  runner_.abandon();
  EXPECT_TRUE(exchanges_.waits().has_failed(false)) << "the results of the step may have been used";
}

}  // namespace
}  // namespace sinew::parallel
