#include <algorithm>
#include <chrono>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::Small;
using test::two_parameters;
using test::whole_step;

TEST(DataParallelStep, RefusesNoSyncInTheMiddleOfAStep) {
  on_threads(1, only("inproc"), [](World& world) {
    Small small(world, "ddp", two_parameters());
    small.data->gradient_ready(1);
    require(complaint([&] { (void)small.data->no_sync(); }).find("in the middle of a step") != std::string::npos,
            "refused");
  });
}

TEST(DataParallelStep, KeepsToTheOuterScopeOfTwo) {
  on_threads(2, only("inproc"), [](World& world) {
    Small small(world, "ddp", two_parameters());
    const auto pass = [&] {
      for (int p = 0; p < 2; ++p) {
        reinterpret_cast<float*>(small.data->gradient(p).data)[0] += static_cast<float>(1 + world.rank());
        small.data->gradient_ready(p);
      }
      return small.data->finish_backward();
    };
    {
      const auto outer = small.data->no_sync();
      { const auto inner = small.data->no_sync(); }
      require(pass().empty(), "summed although the outer scope lives");
    }
    const auto owned = pass();
    require(reinterpret_cast<const float*>(owned[0].gradient.data)[0] == 3.0F, "two passes of 1 and 2, averaged");
    small.data->updated();
  });
}

/// Exchanges start whenever what they need is there, and these calls where the program has them.
TEST(DataParallelStep, LeavesTheMeshsCommunicatorsToItsUser) {
  on_threads(4, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"shard", 2}, {"copies", 2}}));
    const std::vector<float> memory(64, 1);
    const std::vector<ConstBuffer> values{bytes_of(memory), bytes_of(memory)};
    DataParallel data(mesh, {{.path = "a", .elements = 64, .unit = "a"}, {.path = "b", .elements = 64, .unit = "b"}},
                      values, data_row("hsdp", {"shard", "copies"}),
                      [&](std::size_t bytes) { return world.allocate(bytes); });
    for (int step = 0; step < 20; ++step) {
      for (int u = 0; u < 2; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = 2; u-- > 0;) {
        data.before_backward(u);
        auto* g = reinterpret_cast<float*>(data.gradient(u).data);
        std::fill_n(g, 64, static_cast<float>(world.rank()));
        data.gradient_ready(u);
        data.after_backward(u);
        std::this_thread::sleep_for(std::chrono::microseconds((world.rank() * 7 + step * 3) % 5 * 100));
        std::vector<float> own(32, 10.0F + static_cast<float>(world.rank()));
        mesh.along("copies").all_reduce(own, ReduceOp::Sum).get();
        require(own[0] == 2 * 10.0F + 2 * static_cast<float>(world.rank() % 2) + 2, "the user's own call");
      }
      for (const OwnedPart& part : data.finish_backward())
        require(reinterpret_cast<const float*>(part.gradient.data)[0] == 1.5F, "the average of four ranks");
      data.updated();
    }
  });
}

/// The second call does not turn what has happened into a mistake of the caller.
TEST(DataParallelStep, GoesOnSayingHowAnExchangeEnded) {
  on_threads(2, only("inproc"), [](World& world) {
    Small small(world, "ddp", two_parameters());
    world.communicator().barrier().get();
    if (world.rank() == 1) return world.abort("for the test");
    const auto code_of = [&](const auto& call) {
      try {
        call();
      } catch (const Error& e) {
        return e.code();
      }
      return Code::Ok;
    };
    const auto step = [&] {
      for (int p = 0; p < 2; ++p) small.data->gradient_ready(p);
      (void)small.data->finish_backward();
    };
    for (int again = 0; again < 3; ++again) require(code_of(step) == Code::Aborted, "what it ended with");
  });
}

TEST(DataParallelStep, KeepsOnlyPartsOfGradientsThatAreScattered) {
  on_threads(2, only("inproc"), [](World& world) {
    Small small(world, "zero2", two_parameters());
    std::optional<DataParallel::Scope> scope;
    scope.emplace(small.data->no_sync());
    whole_step(*small.data, 1.0F);
    (void)small.data->finish_backward();
    scope.reset();
    whole_step(*small.data, 1.0F);
    (void)small.data->finish_backward();
    require(complaint([&] { (void)small.data->gradient(0); }).find("only parts of it are left") != std::string::npos,
            "refused");
    small.data->updated();
    require(small.data->gradient(0).bytes > 0, "the next step's");
  });
}

/// However fast the backward pass is: two buckets, with what fills them up, unless it says otherwise.
TEST(DataParallelStep, BoundsGradientsThatWaitToBeScattered) {
  std::binary_semaphore two_are_there{0};
  on_threads(2, only("inproc"), [&](World& world) {
    constexpr std::int64_t kElements = (1 << 12) - 3;
    std::vector<DataParameter> list;
    for (int i = 0; i < 16; ++i)
      list.push_back({.path = "layers." + std::to_string(i), .elements = kElements, .unit = "all"});
    DataParallelOptions options{};
    options.step.buckets = NoBuckets{};
    Small small(world, "zero2", list, options);
    // Nothing is scattered meanwhile; a second gradient that waited for that would find itself alone.
    if (world.rank() == 1) (void)two_are_there.try_acquire_for(std::chrono::seconds(2));
    for (int i = 16; i-- > 0;) {
      require(small.data->gradient(i).bytes == 4 * kElements, "room is made");
      small.data->gradient_ready(i);
      if (world.rank() == 0 && i == 14) two_are_there.release();
    }
    (void)small.data->finish_backward();
    small.data->updated();
    const std::int64_t most = small.data->held().most_of(Purpose::Underway);
    require(world.rank() == 1 ? most <= 2 * (4 << 12) : most == 2 * (4 << 12), std::to_string(most) + " at a time");
  });
}

TEST(DataParallelStep, EvaluatesWithoutABackwardPass) {
  for (const auto& [row, reshard] :
       {std::pair{"ddp", Reshard::AfterForward}, std::pair{"zero2", Reshard::AfterForward},
        std::pair{"zero3", Reshard::AfterForward}, std::pair{"zero3", Reshard::AfterBackward}}) {
    on_threads(3, only("inproc"), [&](World& world) {
      DataParallelOptions options{};
      options.step.reshard = reshard;
      Small small(world, row, two_parameters(), options);
      DataParallel& data = *small.data;
      const auto refused = [&](const auto& call, const char* why) {
        require(complaint(call).find(why) != std::string::npos, std::string(row) + ": " + why);
        data.abandon_step();
      };
      refused([&] { data.finish_forward(); }, "expected within forward_only()");
      {
        const auto scope = data.forward_only();
        for (int pass = 0; pass < 3; ++pass) {
          for (int u = 0; u < 2; ++u) {
            data.before_forward(u);
            const auto* value = reinterpret_cast<const float*>(data.parameter(u).data);
            require(std::all_of(value, value + 5, [](float v) { return v == 1.0F; }), row);
            data.after_forward(u);
          }
          data.finish_forward();
          require(data.held().of(Purpose::Underway) == 0, "all that was gathered is freed");
        }
        world.communicator().barrier().get();  // a refused call would end the last pass of ranks that are still in it
        refused([&] { data.before_backward(0); }, "no backward pass");
        refused([&] { data.gradient_ready(0); }, "no backward pass");
        refused([&] { (void)data.finish_backward(); }, "no backward pass");
      }
      for (int u = 0; u < 2; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = 2; u-- > 0;) {
        data.before_backward(u);
        reinterpret_cast<float*>(data.gradient(u).data)[0] = 1.0F;
        data.gradient_ready(u);
        data.after_backward(u);
      }
      for (const OwnedPart& part : data.finish_backward())
        require(reinterpret_cast<const float*>(part.gradient.data)[0] == 1.0F, "a step as ever");
      data.updated();
    });
  }
}

/// What is gathered stays within its bound while the step runs, also of units that differ, which share no piece.
TEST(DataParallelStep, HoldsNoMoreUnderWayThanItMay) {
  on_threads(2, only("inproc"), [](World& world) {
    constexpr int kUnits = 12;
    std::vector<DataParameter> list;
    std::size_t largest = 0;
    for (int i = 0; i < kUnits; ++i) {
      const std::string unit = std::to_string(i);
      list.push_back({.path = std::string("blocks.") + unit, .elements = 1 << (10 + i % 4), .unit = unit});
      largest = std::max(largest, static_cast<std::size_t>(list.back().elements) * sizeof(float));
    }
    DataParallelOptions options{};
    options.step.gathered_bytes = static_cast<std::int64_t>(3 * largest);
    Small small(world, "zero3", list, options);
    for (int step = 0; step < 3; ++step) {
      for (int u = 0; u < kUnits; ++u) small.data->before_forward(u), small.data->after_forward(u);
      for (int u = kUnits; u-- > 0;) {
        small.data->before_backward(u);
        (void)small.data->gradient(u);
        small.data->gradient_ready(u);
        small.data->after_backward(u);
      }
      (void)small.data->finish_backward();
      small.data->updated();
      const HeldBytes& held = small.data->held();
      // The engine's own gradient, and pieces that are taken again for something half as long.
      const std::size_t most = held.most_of(Purpose::Underway);
      require(most <= 2 * 4 * largest, "under way: " + std::to_string(most / largest) + " of the largest units");
      require(held.of(Purpose::Underway) + held.spare <= most, "spare memory is part of it");
    }
  });
}

}  // namespace
}  // namespace sinew::parallel
