#include <cmath>
#include <cstdint>
#include <string>
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

DataParallelOptions each_its_own_bucket() {
  DataParallelOptions options{};
  options.step.buckets = NoBuckets{};
  options.rebuild_buckets = false;
  return options;
}

/// A step of gradients 0, 1 and so on, whose average nothing of an earlier one gets into.
void require_sound_step(World& world, DataParallel& data, const std::string& row) {
  whole_step(data, static_cast<float>(world.rank()));
  const float average = static_cast<float>(world.size() - 1) / 2;
  for (const OwnedPart& part : data.finish_backward()) {
    if (part.first > 0) continue;
    const float sum = reinterpret_cast<const float*>(part.gradient.data)[0];
    require(sum == average, row + ": the average is " + std::to_string(average) + ", not " + std::to_string(sum));
  }
  data.updated();
}

/// As far as rank `world.rank()` reports before it gives up.
void give_up_after(DataParallel& data, int reports) {
  for (int u = 0; u < 2; ++u) data.before_forward(u), data.after_forward(u);
  for (int u = 2; u-- > 0 && reports-- > 0;) {
    data.before_backward(u);
    reinterpret_cast<float*>(data.gradient(u).data)[0] = 100.0F;
    data.gradient_ready(u);
    data.after_backward(u);
  }
  data.abandon_step();
}

/// Wherever ranks are when they do: exchanges that some have started and others not are ended, too.
TEST(DataParallelStep, GivesAStepUp_AndLeavesNothingOfIt) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    on_threads(3, only("inproc"), [&](World& world) {
      Small small(world, row, two_parameters(), each_its_own_bucket());
      DataParallel& data = *small.data;
      give_up_after(data, 2);
      give_up_after(data, world.rank());
      {
        const auto scope = data.no_sync();
        whole_step(data, 50.0F);
        data.abandon_step();
      }
      require_sound_step(world, data, row);
    });
  }
}

/// What is gathered again from near is not there where the forward pass was not ended.
TEST(DataParallelStep, GivesAStepUp_WhoseUnitsAreGatheredFromNear) {
  on_threads(4, only("inproc"), [](World& world) {
    const std::vector<std::string> groups{"near", "near-far"};
    Mesh mesh(world.communicator(), Factorisation({{"near", 2}, {"far", 2}}), groups);
    std::vector<DataParameter> list;
    const std::vector<float> memory(64, 1);
    std::vector<ConstBuffer> values;
    for (int u = 0; u < 4; ++u) {
      list.push_back({.path = std::to_string(u), .elements = 64, .unit = std::to_string(u)});
      values.push_back(bytes_of(memory));
    }
    DataParallelOptions options{};
    options.step.reshard_axes = "near";
    DataParallel data(
        mesh, list, values, data_row("zero3", {"near-far"}), [&](std::size_t bytes) { return world.allocate(bytes); },
        options);
    for (int begun = 0; begun < 3; ++begun) {
      for (int u = 0; u < begun; ++u) data.before_forward(u), data.after_forward(u);
      data.abandon_step();
      require(data.held().of(Purpose::Underway) == 0, "nothing of it is left");
      for (int u = 0; u < 4; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = 4; u-- > 0;) {
        data.before_backward(u);
        require(reinterpret_cast<const float*>(data.parameter(u).data)[63] == 1.0F, "gathered");
        (void)data.gradient(u);
        data.gradient_ready(u);
        data.after_backward(u);
      }
      (void)data.finish_backward();
      data.updated();
    }
  });
}

/// More units than may be gathered at once: what has been gathered makes room for what is left.
TEST(DataParallelStep, GivesAStepUp_OfManyUnits) {
  for (const std::int64_t bound : {0, 3 * 64 * 4}) {
    on_threads(3, only("inproc"), [&](World& world) {
      std::vector<DataParameter> list;
      for (int u = 0; u < 9; ++u)
        list.push_back({.path = std::to_string(u), .elements = 64, .unit = std::to_string(u)});
      DataParallelOptions options = each_its_own_bucket();
      options.step.gathered_bytes = bound;
      Small small(world, "zero3", list, options);
      for (int begun = 0; begun < 9; begun += 4) {
        for (int u = 0; u < begun + world.rank() % 2; ++u) small.data->before_forward(u), small.data->after_forward(u);
        small.data->abandon_step();
        require(small.data->held().of(Purpose::Underway) == 0, "nothing of it is left");
        require_sound_step(world, *small.data, "zero3");
      }
    });
  }
}

/// Rank 0 is bad while gradients are added up, and others are through with that, and have begun to sum.
TEST(DataParallelStep, GivesAStepUp_WhereRanksAreInDifferentPasses) {
  for (const char* row : {"ddp", "zero1", "zero2"}) {
    on_threads(3, only("inproc"), [&](World& world) {
      Small small(world, row, two_parameters(), each_its_own_bucket());
      DataParallel& data = *small.data;
      {
        const auto scope = data.no_sync();
        if (world.rank() == 0) {
          data.abandon_step();
        } else {
          whole_step(data, 100.0F);
          (void)data.finish_backward();
        }
      }
      if (world.rank() > 0) {
        whole_step(data, 100.0F);
        data.abandon_step();
      }
      require_sound_step(world, data, row);
    });
  }
}

/// What an exception does: the scope ends before whoever catches it gives the step up.
TEST(DataParallelStep, GivesAStepUp_WhoseScopeHasEnded) {
  for (const char* row : {"ddp", "zero2", "zero3"}) {
    on_threads(2, only("inproc"), [&](World& world) {
      Small small(world, row, two_parameters(), each_its_own_bucket());
      DataParallel& data = *small.data;
      const auto begin = [&] {
        data.before_forward(0);
        data.after_forward(0);
        if (!data.keeps_whole_parameters()) return;
        (void)data.gradient(1);
        data.gradient_ready(1);
      };
      {
        const auto scope = data.no_sync();
        begin();
      }
      world.communicator().barrier().get();  // a refused call ends the step, and the other rank may be gathering
      require(complaint([&] { data.gradient_ready(0); }).find("no_sync() ended in the middle of a pass") !=
                  std::string::npos,
              "refused");
      data.abandon_step();
      if (!data.keeps_whole_parameters()) {
        const auto scope = data.forward_only();
        data.before_forward(0);
      }
      if (!data.keeps_whole_parameters()) data.abandon_step();
      { const auto scope = data.forward_only(); }
      require_sound_step(world, data, row);
    });
  }
}

/// Coding loses much of gradients that explode, and that is owed to nobody when they are thrown away.
TEST(DataParallelStep, GivesAStepUp_WithWhatItsCodecLost) {
  on_threads(2, only("inproc"), [](World& world) {
    DataParallelOptions options = each_its_own_bucket();
    options.wire = {.codec = Codec::Int8, .error_feedback = true};
    Small small(world, "ddp", two_parameters(), options);
    DataParallel& data = *small.data;
    const auto pass = [&](float first, float others) {
      for (int p = 0; p < 2; ++p) {
        auto* gradient = reinterpret_cast<float*>(data.gradient(p).data);
        gradient[0] = first;
        for (int i = 1; i < 5; ++i) gradient[i] = others;
        data.gradient_ready(p);
      }
      return data.finish_backward();
    };
    (void)pass(1e9F, 3e6F);
    data.abandon_step();
    for (const OwnedPart& part : pass(1.0F, 1.0F)) {
      const auto* sum = reinterpret_cast<const float*>(part.gradient.data);
      for (int i = 0; i < 5; ++i) require(std::abs(sum[i] - 1.0F) < 0.1F, "of this step: " + std::to_string(sum[i]));
    }
    data.updated();
  });
}

}  // namespace
}  // namespace sinew::parallel
