// Calls of a step whose passes a pipeline makes, twice, left out or before their time: on all ranks and on one of them.
#include <algorithm>
#include <chrono>
#include <latch>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/worlds.hpp>

#include "../support/told.hpp"
#include "number_engine.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::NumberEngine;
using test::tells_of_refusal;
using Clock = std::chrono::steady_clock;

constexpr int kElements = 200;  // enough for every rank to own some
constexpr auto kSoon = std::chrono::seconds(1);
const std::string kStep = "bf af bb run g ab fin upd updated ";

/// Two stages with two copies each, and one parameter per stage. Ranks that share a layer run a sum at the end of each
/// pass.
class PipelineCalls {
 public:
  PipelineCalls(World& world, const std::string& row)
      : mesh_(world.communicator(), Factorisation({{"tp", world.size() / 4}, {"pp", 2}, {"dp", 2}})),
        data_(mesh_, {{.path = "w", .elements = kElements, .unit = "stage"}},
              std::vector<ConstBuffer>{{reinterpret_cast<const std::byte*>(values_.data()), kElements * sizeof(float)}},
              data_row(row, {"dp"}), [&world](std::size_t bytes) { return world.allocate(bytes); }),
        sgd_(data_.memory(), SgdOptions{}),
        runner_(mesh_.along("pp"), with_messages(gpipe(2, 2)), engine_, {&data_.protocol()}) {}

  void make(const std::string& list) {
    std::istringstream words(list);
    for (std::string word; words >> word;) {
      if (word == "bf") data_.before_forward(0);
      if (word == "af") data_.after_forward(0);
      if (word == "bb") data_.before_backward(0);
      if (word == "ab") data_.after_backward(0);
      if (word == "run") runner_.run();
      if (word == "g") static_cast<void>(data_.gradient(0)), data_.gradient_ready(0);
      if (word == "fin") owned_ = data_.finish_backward(), mesh_.along("tp").all_reduce(values_).get();
      if (word == "upd") sgd_.update(owned_);
      if (word == "updated") data_.updated();
    }
  }

 private:
  std::vector<float> values_ = std::vector<float>(kElements, 1.0F);
  NumberEngine engine_{2, 2};
  Mesh mesh_;
  DataParallel data_;
  Optimizer sgd_;
  std::vector<OwnedPart> owned_;
  PipelineRunner runner_;
};

struct WrongPipelineOrder {
  std::string calls;  ///< the last one is refused
  std::string made, due;
};

const std::vector<WrongPipelineOrder>& wrong_pipeline_orders() {
  static const std::vector<WrongPipelineOrder> all{
      {"bf af bb run run", "PipelineRunner::run()", "DataParallel::gradient_ready('w')"},
      {"bf af bb g", "DataParallel::gradient_ready('w')", "PipelineRunner::run()"},
      {"bf af bb run g ab run", "PipelineRunner::run()", "DataParallel::finish_backward()"},
      {"bf af bb run g ab updated", "DataParallel::updated()", "DataParallel::finish_backward()"},
      {"bf af bb run g ab fin run", "PipelineRunner::run()", "Optimizer::update()"},
      {"bf af bb run g ab fin upd run", "PipelineRunner::run()", "DataParallel::updated()"},
      {kStep + "bf af bb g", "DataParallel::gradient_ready('w')", "PipelineRunner::run()"},
      {kStep + "bf af bb run run", "PipelineRunner::run()", "DataParallel::gradient_ready('w')"},
  };
  return all;
}

struct PipelineEnding {
  Code code = Code::Ok;
  std::string text;
  Clock::time_point when;
};

PipelineEnding ending_of_calls(PipelineCalls& calls, const std::string& list) {
  PipelineEnding end;
  try {
    calls.make(list);
  } catch (const Error& e) {
    end = {e.code(), e.what(), {}};
  }
  end.when = Clock::now();
  return end;
}

class WrongPipelineOrders : public ::testing::TestWithParam<const char*> {};

/// odd: the rank that makes them; -1: all ranks.
void expect_refused(int ranks, const std::string& row, const WrongPipelineOrder& wrong, int odd) {
  const std::string expected = wrong.made + " was called, but " + wrong.due + " is due: ";
  std::vector<PipelineEnding> endings(static_cast<std::size_t>(ranks));
  std::latch made(ranks), ended(ranks);
  on_threads(ranks, only("inproc"), [&](World& world) {
    PipelineCalls calls(world, row);
    made.arrive_and_wait();  // a refusal would also end the World of a rank that is still constructing
    const auto rank = static_cast<std::size_t>(world.rank());
    const bool is_odd = odd < 0 || world.rank() == odd;
    endings[rank] = ending_of_calls(calls, is_odd ? wrong.calls : kStep + kStep + kStep);
    ended.arrive_and_wait();  // whoever is refused lives on: that is not what the others learn from
    const PipelineEnding& end = endings[rank];
    const std::string which = row + ", rank " + std::to_string(odd) + ", " + wrong.calls + ": " + end.text;
    const bool is_refused = end.code == Code::InvalidArgument && end.text.starts_with(expected);
    const bool is_told = end.code == Code::Aborted && (odd < 0 ? end.text.find(": " + expected) != std::string::npos
                                                               : tells_of_refusal(end.text, odd, expected));
    require(odd < 0 ? is_refused || is_told : is_odd ? is_refused : is_told, which);
  });
  if (odd < 0) return;
  for (const PipelineEnding& each : endings)
    EXPECT_LT(each.when - endings[static_cast<std::size_t>(odd)].when, kSoon) << row << ", " << wrong.calls;
}

TEST_P(WrongPipelineOrders, AreRefusedOnAllRanks) {
  for (const WrongPipelineOrder& wrong : wrong_pipeline_orders()) expect_refused(4, GetParam(), wrong, -1);
}

TEST_P(WrongPipelineOrders, AreRefusedOnOneRank_AndEndTheWorld) {
  for (const WrongPipelineOrder& wrong : wrong_pipeline_orders()) {
    for (int odd = 0; odd < 4; ++odd) expect_refused(4, GetParam(), wrong, odd);
  }
}

/// Ranks that hold the same layer as the refused rank wait for it in collective calls. They must be told, too.
TEST_P(WrongPipelineOrders, AreRefusedOnOneRank_AndEndTheWorldOfThoseWhoShareALayer) {
  int odd = 0;
  for (const WrongPipelineOrder& wrong : wrong_pipeline_orders()) expect_refused(8, GetParam(), wrong, odd++);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, WrongPipelineOrders, ::testing::Values("ddp", "zero1", "zero2", "zero3"),
                         [](const auto& row) { return std::string(row.param); });

/// A stage that runs the pipeline that it is a stage of.
class StageThatRuns final : public StageEngine {
 public:
  std::size_t output_bytes(std::int32_t) const override { return 0; }
  std::size_t forward(std::int32_t, std::int32_t, ConstBuffer, Buffer) override {
    runner->run();
    return 0;
  }
  std::size_t backward(std::int32_t, std::int32_t, ConstBuffer, Buffer) override { return 0; }
  std::size_t input_gradient(std::int32_t, std::int32_t, ConstBuffer, Buffer) override { return 0; }
  void weight_gradient(std::int32_t, std::int32_t) override {}

  PipelineRunner* runner = nullptr;
};

TEST(PipelineRunner, RefusesToRunWithinAStage) {
  on_threads(1, only("inproc"), [](World& world) {
    StageThatRuns engine;
    PipelineRunner runner(world.communicator(), with_messages(gpipe(1, 1)), engine);
    engine.runner = &runner;
    const std::string said = sinew::test::complaint([&] { runner.run(); });
    require(said.find("PipelineRunner::run() was called by a stage") == 0, said);
  });
}

}  // namespace
}  // namespace sinew::parallel
