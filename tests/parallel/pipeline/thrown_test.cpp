#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/worlds.hpp>

#include "number_engine.hpp"

// A stage throws on one rank. Every rank of the World must end with the thrown text, whatever call it waits in.
namespace sinew::parallel {
namespace {

using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::NumberEngine;

/// A value to throw, and what the ranks must find.
struct Thrown {
  const char* name;
  std::function<void()> throw_it;
  std::function<bool()> is_it;  ///< in a handler: whether the thrown value is this one
  const char* text;             ///< text that the other ranks get
  Code code = Code::Aborted;    ///< code that the other ranks' calls end with
};

template <class T, class Same>
Thrown thrown(const char* name, const T& value, const char* text, Same same, Code code = Code::Aborted) {
  return {name, [value] { throw value; },
          [same] {
            try {
              throw;
            } catch (const T& found) {
              return same(found);
            } catch (...) {
              return false;
            }
          },
          text, code};
}

std::vector<Thrown> all_thrown() {
  const auto says = [](const char* text) {
    return [text](const std::exception& e) { return e.what() == std::string(text); };
  };
  return {
      thrown("exception", std::out_of_range("token 7"), "token 7", says("token 7")),
      thrown("Error", Error(Code::Unavailable, "no device", 3), "no device",
             [](const Error& e) { return e.code() == Code::Unavailable && e.rank() == 3; }),
      thrown("lost", Error(Code::PeerLost, "the reader is gone"), "the reader is gone", says("the reader is gone"),
             Code::PeerLost),
      thrown("integer", 42, "an exception of type int was thrown", [](int i) { return i == 42; }),
      thrown("string", std::string("out of data"), "out of data",
             [](const std::string& s) { return s == "out of data"; }),
  };
}

/// A layout, and the rank that throws in it.
struct Place {
  LayoutSizes sizes;
  int ranks;
  int thrower;        ///< World rank
  int stage;          ///< the thrower's stage
  const char* shown;  ///< the thrower's name in errors of its pipeline
};

const std::array kPlaces{
    Place{{.tp = 2, .pp = 2}, 4, 0, 0, "rank 0"},
    Place{{.tp = 2, .pp = 2}, 4, 3, 1, "rank 3 (1 in pp)"},
    Place{{.tp = 2, .dp = 2, .pp = 2}, 8, 2, 0, "rank 2 (0 in pp)"},
    Place{{.tp = 2, .dp = 2, .pp = 2}, 8, 5, 1, "rank 5 (1 in pp)"},
};

/// Stages with a tensor-parallel sum. The thrower's stage throws before its sum.
class ThrowingEngine : public StageEngine {
 public:
  ThrowingEngine(Communicator& tensor, NumberEngine& numbers, const std::function<void()>* throws)
      : tensor_(tensor), numbers_(numbers), throws_(throws) {}

  std::size_t output_bytes(std::int32_t stage) const override { return numbers_.output_bytes(stage); }
  std::size_t forward(std::int32_t stage, std::int32_t m, ConstBuffer in, Buffer out) override {
    if (throws_ != nullptr && m == 1) (*throws_)();
    sum();
    return numbers_.forward(stage, m, in, out);
  }
  std::size_t backward(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    sum();
    return numbers_.backward(stage, m, dout, din);
  }
  std::size_t input_gradient(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    return numbers_.input_gradient(stage, m, dout, din);
  }
  void weight_gradient(std::int32_t stage, std::int32_t m) override { numbers_.weight_gradient(stage, m); }

 private:
  void sum() {
    std::array<float, 2> values{1, 2};
    tensor_.all_reduce(values).get();
  }

  Communicator& tensor_;
  NumberEngine& numbers_;
  const std::function<void()>* throws_;
};

void step(World& world, const Place& place, const Thrown& what) {
  JobMesh mesh(world.communicator(), place.sizes);
  const bool throws = world.rank() == place.thrower;
  NumberEngine numbers(2, 3);
  ThrowingEngine engine(mesh.dense().along("tp"), numbers, throws ? &what.throw_it : nullptr);
  PipelineRunner runner(mesh.dense().along("pp"), with_messages(gpipe(2, 3)), engine);
  std::optional<std::chrono::steady_clock::time_point> begin;  // the time when all ranks had met
  const auto meet = [&] {
    world.communicator().barrier().get();
    begin = std::chrono::steady_clock::now();
  };
  const std::string which = fmt::format("{}, rank {}: ", what.name, world.rank());
  const std::string told = fmt::format("{} aborted the world: pipeline, forward of stage {} for micro-batch 1: {}",
                                       place.shown, place.stage, what.text);
  if (throws) {
    meet();
    for (int run = 0; run < 2; ++run) {
      bool is_it = false;
      try {
        runner.run();
      } catch (...) {
        is_it = what.is_it();
      }
      require(is_it, which + "it got another exception than its own");
    }
  } else {
    std::optional<Error> end;
    try {
      meet();  // the thrower may leave the meeting before this rank
      runner.run();
      std::array<float, 2> gradients{};
      mesh.dense().along("dp").all_reduce(gradients).get();
      world.communicator().barrier().get();
    } catch (const Error& e) {
      end = e;
    }
    require(end.has_value(), which + "it ended well");
    require(end->code() == what.code, which + end->what());
    require(std::string(end->what()).find(told) != std::string::npos, which + end->what());
  }
  require(!begin || std::chrono::steady_clock::now() - *begin < std::chrono::seconds(2), which + "it took too long");
  // Later calls on any communicator end for the same reason.
  const Status later = world.communicator().barrier().wait(Deadline::after(std::chrono::seconds(20)));
  require(later.code() == what.code && later.message().find(told) != std::string_view::npos,
          which + std::string(later.message()));
  require(later.rank() == place.thrower, which + "the later call blames another rank");
}

TEST(ThrowingStage, EndsTheWorldWithItsText_WhereRanksAreThreads) {
  for (const Place& place : kPlaces) {
    for (const Thrown& what : all_thrown())
      on_threads(place.ranks, only("inproc"), [&](World& world) { step(world, place, what); });
  }
}

TEST(ThrowingStage, EndsTheWorldWithItsText_WhereRanksAreProcesses) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const Place& place : kPlaces) {
      for (const Thrown& what : all_thrown())
        in_processes(place.ranks, only(transport), [&](World& world) { step(world, place, what); });
    }
  }
}

/// A rank lets the exception leave main, as most programs do. Its World is destroyed by that.
TEST(ThrowingStage, IsNamedByAllOthers_WhereItsRankUnwindsToTheEnd) {
  for (const Place& place : kPlaces) {
    in_processes(place.ranks, only("shm"), [&](World& world) {
      const Thrown what = all_thrown().front();
      try {
        JobMesh mesh(world.communicator(), place.sizes);
        NumberEngine numbers(2, 3);
        ThrowingEngine engine(mesh.dense().along("tp"), numbers,
                              world.rank() == place.thrower ? &what.throw_it : nullptr);
        PipelineRunner runner(mesh.dense().along("pp"), with_messages(gpipe(2, 3)), engine);
        runner.run();
        std::array<float, 2> gradients{};
        mesh.dense().along("dp").all_reduce(gradients).get();
        world.communicator().barrier().get();
        require(false, "it ended well");
      } catch (const std::out_of_range&) {
        require(world.rank() == place.thrower, "another rank threw");
      } catch (const Error& e) {
        const std::string text = e.what();
        require(text.find(fmt::format("{} aborted the world", place.shown)) != std::string::npos &&
                    text.find("token 7") != std::string::npos,
                text);
      }
    });
  }
}

TEST(ThrowingStage, EndsTheWorld_WhereItDoesNotSayWhatItHandsOn) {
  on_threads(4, only("inproc"), [](World& world) {
    NumberEngine engine(2, 2);
    engine.is_silent = world.rank() == 1;
    std::string said;
    try {
      JobMesh mesh(world.communicator(), {.tp = 2, .pp = 2});
      PipelineRunner runner(mesh.dense().along("pp"), with_messages(gpipe(2, 2)), engine);
      std::array<float, 2> values{};
      mesh.dense().along("tp").all_reduce(values).get();
      world.communicator().barrier().get();
    } catch (const Error& e) {
      said = e.what();
    }
    require(said == (world.rank() == 1 ? "not today"
                                       : "rank 1 (0 in pp) aborted the world: output bytes of stage 0: not today"),
            said);
  });
}

}  // namespace
}  // namespace sinew::parallel
