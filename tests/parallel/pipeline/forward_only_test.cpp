// Passes without a backward half, beside training: what they make, and which runner may run when.
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/worlds.hpp>

#include "number_engine.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::NumberEngine;

/// The text that a rank gets. Only one of them made the call that is refused first.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

/// Counts the stages' calls, and does what NumberEngine does.
class CountingEngine final : public StageEngine {
 public:
  CountingEngine(std::int32_t stages, std::int32_t micro_batches)
      : outputs(static_cast<std::size_t>(micro_batches), -1), numbers_(stages, micro_batches) {}

  std::size_t output_bytes(std::int32_t stage) const override { return numbers_.output_bytes(stage); }
  std::size_t forward(std::int32_t stage, std::int32_t m, ConstBuffer in, Buffer out) override {
    ++forwards;
    std::int64_t x = 1000 + m;
    if (stage > 0) std::memcpy(&x, in.data, sizeof x);
    outputs[static_cast<std::size_t>(m)] = test::through(x, stage);
    return numbers_.forward(stage, m, in, out);
  }
  std::size_t backward(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    ++backwards;
    return numbers_.backward(stage, m, dout, din);
  }

  std::vector<std::int64_t> outputs;  // of the rank's last stage, by micro-batch
  int forwards = 0, backwards = 0;

 private:
  NumberEngine numbers_;
};

TEST(ForwardOnlyPipeline, RunsEveryStageOnce_BesideTraining) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "looped-bfs"}) {
    for (const std::int32_t ranks : {1, 2, 3}) {
      const std::int32_t v = std::string(name) == "interleaved" || std::string(name) == "looped-bfs" ? 2 : 1;
      on_threads(ranks, only("inproc"), [&](World& world) {
        const PipelineSchedule schedule = with_messages(make_schedule(name, ranks, 4, v));
        CountingEngine engine(schedule.stages(), 4);
        PipelineRunner training(world.communicator(), schedule, engine);
        PipelineRunner evaluation(world.communicator(), forward_only(schedule), engine);
        for (int turn = 1; turn <= 2; ++turn) {
          training.run();
          evaluation.run();
          evaluation.run();
          require(engine.forwards == 3 * turn * 4 * v && engine.backwards == turn * 4 * v, "calls of stages");
        }
        if (world.rank() + 1 < ranks) return;
        for (std::int32_t m = 0; m < 4; ++m)
          require(engine.outputs[static_cast<std::size_t>(m)] == test::forward_of(m, schedule.stages()), "outputs");
      });
    }
  }
}

/// A step with a training pipeline and one for evaluation.
struct Steps {
  explicit Steps(World& world)
      : mesh(world.communicator(), Factorisation({{"dp", 1}, {"pp", 2}})),
        data(
            mesh, {{.path = "w", .elements = 8, .unit = "stage"}},
            [](const InitialPart& part) { part.fill([](auto) { return 1; }); }, data_row("zero3", {"dp"}),
            [&world](std::size_t bytes) { return world.allocate(bytes); }),
        sgd(data.memory(), SgdOptions{}),
        training(mesh.along("pp"), with_messages(gpipe(2, 2)), engine, {&data.protocol()}),
        evaluation(mesh.along("pp"), forward_only(with_messages(gpipe(2, 2))), engine, {&data.protocol()}) {}

  void train() {
    data.before_forward(0), data.after_forward(0), data.before_backward(0);
    training.run();
    static_cast<void>(data.gradient(0)), data.gradient_ready(0);
    data.after_backward(0);
    sgd.update(data.finish_backward());
    data.updated();
  }
  void evaluate() {
    const auto scope = data.forward_only();
    data.before_forward(0);
    evaluation.run();
    data.after_forward(0), data.finish_forward();
  }

  Mesh mesh;
  NumberEngine engine{2, 2};
  DataParallel data;
  Optimizer sgd;
  PipelineRunner training, evaluation;
};

TEST(ForwardOnlyPipeline, RunsWithinForwardOnly_AndTrainingGoesOn) {
  on_threads(2, only("inproc"), [](World& world) {
    Steps steps(world);
    steps.evaluate();
    steps.train();
    steps.evaluate();
    steps.train();
    require(steps.sgd.steps() == 2, "two updates");
  });
}

/// The text of the refused call. The other rank may learn of it wherever it is, in the same words.
TEST(ForwardOnlyPipeline, IsRefusedInATrainingPass) {
  on_threads(2, only("inproc"), [](World& world) {
    const std::string said = error_of([&] {
      Steps steps(world);
      steps.data.before_forward(0);
      steps.evaluation.run();
    });
    require(
        said.find("the schedule of this pipeline is forward-only, expected within forward_only()") != std::string::npos,
        said);
  });
}

TEST(ForwardOnlyPipeline, IsTheOnlyOneWithinForwardOnly) {
  on_threads(2, only("inproc"), [](World& world) {
    const std::string said = error_of([&] {
      Steps steps(world);
      const auto scope = steps.data.forward_only();
      steps.data.before_forward(0);
      steps.training.run();
    });
    require(said.find("within forward_only() a pipeline runs a forward-only schedule") != std::string::npos, said);
  });
}

/// Schedules with whole backward passes do not need the two functions.
TEST(StageEngines, SayThatTheyDoNotSplitBackwardPasses) {
  on_threads(2, only("inproc"), [](World& world) {
    CountingEngine engine(2, 2);
    PipelineRunner runner(world.communicator(), with_messages(zero_bubble_h1(2, 2)), engine);
    const std::string said = error_of([&] { runner.run(); });
    require(said.find("the schedule has the input gradient of stage") != std::string::npos, said);
    require(said.find("or a schedule such as 1f1b") != std::string::npos, said);
  });
}

}  // namespace
}  // namespace sinew::parallel
