#include <chrono>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/worlds.hpp>

#include "number_engine.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::NumberEngine;

/// The code that a call ends with, and what it says.
struct Ending {
  Code code = Code::Ok;
  std::string text;
};
template <class Call>
Ending ending_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

TEST(PipelineRunner, MakesWhatStagesMakeOneAfterTheOther) {
  for (const NamedGenerator& generator : generators()) {
    for (std::int32_t ranks = 1; ranks <= 4; ++ranks) {
      for (const std::int32_t micro_batches : {1, 2, 3, 5, 9}) {
        for (std::int32_t v = generator.least_virtual_stages; v <= generator.virtual_stages(3); ++v) {
          const PipelineSchedule schedule = with_messages(generator.make(ranks, micro_batches, v));
          const std::string which =
              fmt::format("{}, {} ranks, {} micro-batches, {} stages each: ", generator.name, ranks, micro_batches, v);
          on_threads(ranks, only("inproc"), [&](World& world) {
            NumberEngine engine(schedule.stages(), micro_batches);
            PipelineRunner runner(world.communicator(), schedule, engine);
            const std::size_t held = runner.held_bytes();
            for (int step = 0; step < 3; ++step) {
              engine = NumberEngine(schedule.stages(), micro_batches);
              runner.run();
              engine.require_right(schedule, world.rank(), which);
            }
            require(runner.held_bytes() == held, which + "room");
          });
        }
      }
    }
  }
}

TEST(PipelineRunner, ListsTheMessagesThatItMovesAhead) {
  const PipelineSchedule schedule = with_messages(make_schedule("1f1b", 2, 4));
  on_threads(2, only("inproc"), [&](World& world) {
    NumberEngine engine(schedule.stages(), 4);
    PipelineRunner runner(world.communicator(), schedule, engine);
    const std::string text = runner.explain(), expected = world.rank() == 0 ? "moved receive over pp of gradient"
                                                                            : "moved receive over pp of input";
    require(text.find(expected) != std::string::npos, text);
    require(text.find(" later") != std::string::npos, text);
  });
}

/// The peer waits for a message that does not come: it is told why, and neither waits for the timeout.
TEST(PipelineRunner, SaysOnAllRanksWhatAStageHasNotWritten) {
  for (const std::int32_t stage : {0, 1}) {
    on_threads(2, only("inproc"), [&](World& world) {
      const auto begin = std::chrono::steady_clock::now();
      const std::string fault =
          stage == 0 ? "pipeline: the output of stage 0 for micro-batch 0 on rank 0 has made 7 bytes, expected 8"
                     : "pipeline: the gradient of stage 1 for micro-batch 0 on rank 1 has made 7 bytes, expected 8";
      {
        NumberEngine engine(2, 2);
        engine.short_stage = stage;
        PipelineRunner runner(world.communicator(), with_messages(gpipe(2, 2)), engine);
        const Ending first = ending_of([&] { runner.run(); });
        if (world.rank() == stage) {
          require(first.code == Code::InvalidArgument && first.text == fault, first.text);
        } else {
          require(first.code == Code::Aborted && first.text.find(fault) != std::string::npos, first.text);
        }
        const Ending second = ending_of([&] { runner.run(); });
        require(second.code == first.code && second.text == first.text, second.text);
      }
      require(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20), "it took the timeout");
    });
  }
}

TEST(PipelineRunner, RefusesWhatIsNotProved) {
  on_threads(2, only("inproc"), [](World& world) {
    NumberEngine engine(2, 2);
    const auto said = [&](const PipelineSchedule& schedule) {
      return complaint([&] { PipelineRunner(world.communicator(), schedule, engine); });
    };
    require(said(with_messages(gpipe(3, 2))).find("is of 3 ranks, expected 2") != std::string::npos, "ranks");
    PipelineSchedule schedule = with_messages(gpipe(2, 2));
    schedule.actions[0].pop_back();
    require(said(schedule).find("is not proved: ") != std::string::npos, said(schedule));
  });
}

TEST(PipelineRunner, RefusesOnAllRanksWhereSchedulesDiffer) {
  on_threads(3, only("inproc"), [](World& world) {
    NumberEngine engine(3, 2);
    const auto said = [&](const PipelineSchedule& schedule) {
      return complaint([&] { PipelineRunner(world.communicator(), schedule, engine); });
    };
    const std::string other = said(with_messages(world.rank() == 1 ? zero_bubble_h1(3, 2) : gpipe(3, 2)));
    require(other.find("pipeline: schedule: rank 0 has '3 stages, 2 micro-batches, actions ") == 0, other);
    require(other.find("', rank 1 '3 stages, 2 micro-batches, actions ") != std::string::npos, other);
    PipelineSchedule cut = with_messages(gpipe(3, 2));
    if (world.rank() == 2) cut.actions[0].pop_back();
    const std::string unproved = said(cut);
    require(unproved.find(", rank 2 ''gpipe' is not proved: ") != std::string::npos, unproved);
  });
}

TEST(PipelineRunner, RefusesOnAllRanksWhatAStageCannotHandOn) {
  on_threads(2, only("inproc"), [](World& world) {
    for (const std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0}}) {
      NumberEngine huge(2, 2);
      if (world.rank() == 0) huge.too_long = bytes;
      const std::string said =
          complaint([&] { PipelineRunner(world.communicator(), with_messages(gpipe(2, 2)), huge); });
      require(said.find("pipeline: stage 0 hands on more than 1099511627776 bytes") == 0, said);
    }
    NumberEngine silent(2, 2);
    silent.is_silent = world.rank() == 0;
    const Ending end = ending_of([&] { PipelineRunner(world.communicator(), with_messages(gpipe(2, 2)), silent); });
    require(end.code == (world.rank() == 0 ? Code::Unavailable : Code::Aborted), end.text);
  });
}

}  // namespace
}  // namespace sinew::parallel
