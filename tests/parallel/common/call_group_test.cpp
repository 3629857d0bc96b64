#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/tensor/exchange.hpp>
#include <support/error_shape.hpp>
#include <support/worlds.hpp>

#include "../pipeline/number_engine.hpp"

// Errors about the calls of strategies show a label and the line of the program that made the strategy.
namespace sinew::parallel {
namespace {

using sinew::test::fault_of_error;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

WorldOptions impatient() {
  WorldOptions options = only("inproc");
  options.config.timeout = std::chrono::milliseconds(300);
  return options;
}

/// Returns rank 0's error after a strategy's call for which rank 1 comes too late.
void expect_late(const std::function<void(World&, std::latch& told)>& body) {
  std::latch told(1);
  on_threads(2, impatient(), [&](World& world) { body(world, told); });
}

void require_told(std::latch& told, const std::function<void()>& call, const std::string& label,
                  const std::string& group) {
  std::string text = "nothing";
  try {
    call();
  } catch (const Error& e) {
    text = e.what();
  }
  told.count_down();
  require(text.find(" for " + label + ", call ") != std::string::npos ||
              text.find(" for " + label + " on ") != std::string::npos,
          text);
  require(text.find("call_group_test.cpp:") != std::string::npos, text);
  require(fault_of_error(text, {0, 1}, group).empty(), fault_of_error(text, {0, 1}, group) + ": " + text);
}

TEST(CallGroup, NamesTheBucketOfDataParallelism) {
  expect_late([](World& world, std::latch& told) {
    Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
    const InitialValues zero = [](const InitialPart&) {};
    DataParallel data(mesh, {{.path = "a", .elements = 50, .unit = "u"}, {.path = "b", .elements = 7, .unit = "u"}},
                      zero, data_row("ddp", {"dp"}), [&](std::size_t bytes) { return world.allocate(bytes); });
    if (world.rank() == 0) {
      require_told(
          told,
          [&] {
            for (const std::int32_t p : {1, 0}) data.gradient_ready(p);
            static_cast<void>(data.finish_backward());
          },
          "bucket 0 of gradients ('a' and 1 more)", "data along dp of 2");
    }
    told.wait();
  });
}

TEST(CallGroup, NamesTheTensorOfAnExchange) {
  expect_late([](World& world, std::latch& told) {
    const TensorSpec hidden{"hidden", DType::F32, {4, 6}, {}};
    Exchange exchange(world.communicator(), "gather", "tp", hidden, Shard{0, {}}, Replicate{});
    if (world.rank() == 0) {
      std::vector<std::byte> in(exchange.in_bytes()), out(exchange.out_bytes());
      require_told(
          told,
          [&] {
            exchange.run({Shard{0, {}}, ConstBuffer(in.data(), in.size())}, Buffer(out.data(), out.size()));
          },
          "gather of hidden", "world of 2");
    }
    told.wait();
  });
}

TEST(CallGroup, NamesTheStageOfAMessage) {
  expect_late([](World& world, std::latch& told) {
    test::NumberEngine engine(2, 2);
    Communicator pp = world.communicator().split(0, 0, {}, "pp");
    PipelineRunner runner(pp, with_messages(gpipe(2, 2)), engine);
    if (world.rank() == 0)
      require_told(
          told, [&] { runner.run(); }, "gradient of the input of stage 1", "pp of 2");
    told.wait();
  });
}

}  // namespace
}  // namespace sinew::parallel
