// Offload of activations: the same numbers to the last bit, in less memory.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fakes/fake_device.hpp>
#include <fakes/late_store.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/offload/pinned_store.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>

#include "small_blocks.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::are_same_bits;
using test::blocks;
using test::expect_same_numbers;
using test::file_store;
using test::kBlocks;
using test::kInner;
using test::kRows;
using test::kWidth;
using test::Outcome;
using test::Passes;
using test::trained;

TEST(ActivationOffload, ChangesNoBitAndFreesMemory) {
  for (const bool splits : {false, true}) {
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      const Outcome in_memory = trained({.recomputation = {recompute}, .splits = splits});
      for (const std::size_t ahead : {std::size_t{0}, std::size_t{20'000}, std::size_t{1} << 30}) {
        const auto store = file_store();
        const Outcome outside = trained({.recomputation = {recompute},
                                         .offload = {.store = store, .write_bytes = 0, .read_ahead_bytes = ahead},
                                         .splits = splits});
        expect_same_numbers(outside, in_memory);
        EXPECT_EQ(outside.said_bytes, 0);
        EXPECT_EQ(outside.kept_bytes, 0);
        EXPECT_EQ(store->stored_bytes(), 0);
        EXPECT_GT(store->copied_bytes(), 0);
        if (ahead <= 20'000 && recompute != Recompute::Full && !splits) {
          EXPECT_LT(outside.held_bytes, in_memory.held_bytes - in_memory.kept_bytes / 2);
        }
      }
    }
  }
}

/// The pool never has more than all that one block needs, and the arrays on their way.
TEST(ActivationOffload, HoldsNoMoreThanOneBlockAndTheBudgets) {
  const Outcome in_memory = trained({});
  const Outcome outside = trained({.offload = {.store = file_store(), .write_bytes = 0, .read_ahead_bytes = 0}});
  const std::size_t of_one_block = in_memory.kept_bytes / kBlocks * 2;  // blocks of experts keep more than others
  const std::size_t passing = in_memory.held_bytes - in_memory.kept_bytes;
  EXPECT_LT(outside.held_bytes, passing + of_one_block);
}

/// Copies that run late show wrong bytes if memory is used again too early.
TEST(ActivationOffload, WaitsForCopiesAndKeepsToBudgets) {
  constexpr std::size_t kLargest = sizeof(float) * kRows * kInner * 2;  // rows of experts
  constexpr std::size_t kLarge = std::size_t{1} << 30;
  for (const bool splits : {false, true}) {
    const Outcome in_memory = trained({.splits = splits});
    std::size_t of_one_block = 0, all_reads = 0;
    for (const auto& [writes, ahead] : {std::pair<std::size_t, std::size_t>{0, 0},
                                        {30'000, 0},
                                        {0, 30'000},
                                        {30'000, 60'000},
                                        {0, kLarge},
                                        {kLarge, 0},
                                        {kLarge, kLarge}}) {
      const auto store = std::make_shared<fake::LateStore>();
      const Outcome outside =
          trained({.offload = {.store = store, .write_bytes = writes, .read_ahead_bytes = ahead}, .splits = splits});
      expect_same_numbers(outside, in_memory);
      EXPECT_EQ(store->stored_bytes(), 0);
      EXPECT_LE(store->most_writing(), writes + kLargest);
      if (writes == 0 && ahead == 0) {
        of_one_block = store->most_reading();
        all_reads = store->reads().size();
      }
      EXPECT_LE(store->most_reading(), of_one_block + ahead);
      if (writes == 0 && ahead == 30'000) {
        EXPECT_GT(store->most_reading(), of_one_block);
      }
      if (writes == 0 && ahead == kLarge) {
        EXPECT_GT(store->most_reading(), 3 * of_one_block);
      }
      if (writes == kLarge && ahead == kLarge) {
        EXPECT_LT(store->reads().size(), all_reads) << "arrays whose copies have not run";
      }
    }
  }
}

TEST(ActivationOffload, ReadsLaterModulesFirst) {
  const auto store = std::make_shared<fake::LateStore>();
  trained({.recomputation = {Recompute::Full}, .offload = {.store = store, .write_bytes = 0}});
  ASSERT_EQ(store->reads().size(), 2 * kBlocks) << "one input for each block, in two passes";
  EXPECT_TRUE(std::ranges::is_sorted(store->reads().begin(), store->reads().begin() + kBlocks, std::ranges::greater()));
  EXPECT_TRUE(std::ranges::is_sorted(store->reads().begin() + kBlocks, store->reads().end(), std::ranges::greater()));
}

struct PipelineOutcome {
  std::vector<float> gradients{};
  std::size_t held_bytes = 0;
};

/// Two steps of two stages, each of two blocks without experts.
PipelineOutcome trained_in_pipeline(World& world, const PipelineSchedule& schedule, const ActivationOffload& offload) {
  HostBlas blas;
  Communicator none;
  Passes passes;
  Mesh mesh(world.communicator(), Factorisation({{"dp", 1}, {"pp", 2}}));
  std::vector<ModulePtr<float>> stages;
  const int first = world.rank() * 3;
  stages.push_back(blocks({none, &blas}, {none, none}, passes, first, first + 2));
  PipelineEnds<float> ends{.input = [](std::int32_t m, float* x) { std::fill_n(x, kRows * kWidth, 0.1F + m); },
                           .loss = [](std::int32_t, float*) {}};
  PipelinedModel<float> model(mesh, mesh.along("pp"), schedule, std::move(stages), std::move(ends),
                              [&world](std::size_t bytes) { return world.allocate(bytes); },
                              {.row = data_row("ddp", {"dp"}), .spread = "pp", .offload = offload});
  PipelineOutcome outcome;
  for (int step = 0; step < 2; ++step) {
    model.step();
    outcome.gradients.clear();
    for (const OwnedPart& part : model.data().finish_backward()) {
      const auto* const gradient = reinterpret_cast<const float*>(part.gradient.data);
      outcome.gradients.insert(outcome.gradients.end(), gradient, gradient + part.last - part.first);
    }
    model.data().updated();
  }
  outcome.held_bytes = model.held_bytes();
  return outcome;
}

/// Under gpipe all microbatches are in flight at once.
TEST(ActivationOffload, FreesMemoryInPipelines) {
  constexpr std::int32_t kMicroBatches = 8;
  for (const auto& schedule : {gpipe(2, kMicroBatches), make_schedule("1f1b", 2, kMicroBatches, 1),
                               make_schedule("zb-h1", 2, kMicroBatches, 1)}) {
    on_threads(2, only("inproc"), [&](World& world) {
      const PipelineOutcome expected = trained_in_pipeline(world, with_messages(schedule), {});
      const auto store = file_store();
      const PipelineOutcome found = trained_in_pipeline(
          world, with_messages(schedule), {.store = store, .write_bytes = 20'000, .read_ahead_bytes = 20'000});
      require(are_same_bits(found.gradients, expected.gradients), schedule.name + ": gradients");
      require(store->stored_bytes() == 0, schedule.name + ": all room is free");
      require(schedule.name != "gpipe" || found.held_bytes < expected.held_bytes / 2,
              fmt::format("{}: {} bytes, {} in memory", schedule.name, found.held_bytes, expected.held_bytes));
    });
  }
}

/// Three microbatches in flight, whose backward passes come in the order `backward`.
std::vector<float> gradients_of_three(World& world, const ActivationOffload& offload,
                                      const std::vector<int>& backward) {
  HostBlas blas;
  Communicator none;
  Passes passes;
  Mesh mesh(world.communicator(), Factorisation({{"tp", 1}, {"dp", 1}}));
  Mesh expert_mesh(world.communicator(), Factorisation({{"ep", 1}, {"edp", 1}}));
  Model<float> model(mesh, blocks({none, &blas}, {none, none}, passes),
                     [&world](std::size_t bytes) { return world.allocate(bytes); },
                     {.row = data_row("ddp", {"dp"}),
                      .expert_mesh = &expert_mesh,
                      .expert_row = data_row("ddp", {"edp"}),
                      .offload = offload});
  ArrayPool<float> pool;
  struct Flight {
    Pass<float> pass;
    std::vector<float> x, out, dx;
    Kept<float> kept{};
  };
  std::vector<std::unique_ptr<Flight>> flights;
  for (int f = 0; f < 3; ++f) {
    const std::vector<float> x(kRows * kWidth, 0.25F * static_cast<float>(f + 1));
    flights.push_back(
        std::make_unique<Flight>(Flight{Pass<float>(model.data(), &model.experts(), pool, false), x, x, x}));
    Flight& flight = *flights.back();
    model.module().forward(flight.pass, flight.x.data(), flight.kept, flight.out.data());
  }
  std::vector<float> all(3 * kRows * kWidth);
  for (const int f : backward) {
    Flight& flight = *flights[static_cast<std::size_t>(f)];
    model.module().backward(flight.pass, flight.x.data(), flight.kept, flight.out.data(), flight.dx.data());
    std::ranges::copy(flight.dx, all.begin() + f * kRows * kWidth);
    flights[static_cast<std::size_t>(f)].reset();
  }
  return all;
}

TEST(ActivationOffload, ServesMicrobatchesInAnyOrder) {
  on_threads(1, only("inproc"), [](World& world) {
    const std::vector<float> expected = gradients_of_three(world, {}, {0, 1, 2});
    for (const std::size_t ahead : {std::size_t{0}, std::size_t{40'000}, std::size_t{1} << 30}) {
      for (const std::size_t writes : {std::size_t{0}, std::size_t{1} << 30}) {
        for (const std::vector<int>& backward :
             {std::vector<int>{0, 1, 2}, std::vector<int>{2, 1, 0}, std::vector<int>{1, 2, 0}}) {
          const auto store = std::make_shared<fake::LateStore>();
          const ActivationOffload offload{.store = store, .write_bytes = writes, .read_ahead_bytes = ahead};
          require(are_same_bits(gradients_of_three(world, offload, backward), expected), "gradients");
          require(store->stored_bytes() == 0, "all room is free");
        }
      }
    }
  });
}

TEST(ActivationOffload, ReportsFailedWrites) {
  for (const std::uint64_t failing : {1, 20}) {
    const auto store = std::make_shared<fake::LateStore>(failing);
    on_threads(1, only("inproc"), [&](World& world) {
      std::string said;
      try {
        trained(world, {.offload = {.store = store, .write_bytes = 0}});
      } catch (const Error& e) {
        said = e.what();
      }
      require(said == "late store: no room", said);
    });
    EXPECT_EQ(store->stored_bytes(), 0);
  }
}

TEST(ActivationOffload, TakesModulesByName) {
  const Outcome none = trained({});
  const auto store = file_store();
  const Outcome attention = trained({.offload = {.store = store, .modules = {"blocks.1.attention", "blocks.3"}}});
  expect_same_numbers(attention, none);
  EXPECT_LT(attention.kept_bytes, none.kept_bytes);
  EXPECT_GT(attention.kept_bytes, 0);
  EXPECT_EQ(attention.said_bytes, attention.kept_bytes);
}

/// Modules have arrays of the host. The store's stream runs late all the same.
TEST(ActivationOffload, WorksWithPinnedMemory) {
  const Outcome none = trained({});
  fake::Device device;
  const StreamRef stream = device.make_stream(0);
  {
    const auto store = std::make_shared<PinnedStore>(device, stream);
    for (const bool splits : {false, true}) {
      const Outcome outside = trained({.offload = {.store = store, .write_bytes = 10'000}, .splits = splits});
      expect_same_numbers(outside, splits ? trained({.splits = true}) : none);
    }
    EXPECT_EQ(store->stored_bytes(), 0);
    EXPECT_GT(store->pinned_bytes(), 0);
  }
  device.release(stream);
}

/// A pass that is given up frees its room in the store.
TEST(ActivationOffload, GivesUpAbandonedPasses) {
  on_threads(1, only("inproc"), [](World& world) {
    HostBlas blas;
    Communicator none;
    Passes passes;
    Mesh mesh(world.communicator(), Factorisation({{"tp", 1}, {"dp", 1}}));
    Mesh expert_mesh(world.communicator(), Factorisation({{"ep", 1}, {"edp", 1}}));
    const auto store = file_store();
    Model<float> model(mesh, blocks({none, &blas}, {none, none}, passes),
                       [&world](std::size_t bytes) { return world.allocate(bytes); },
                       {.row = data_row("ddp", {"dp"}),
                        .expert_mesh = &expert_mesh,
                        .expert_row = data_row("ddp", {"edp"}),
                        .offload = {.store = store, .write_bytes = 0}});
    const std::vector<float> x(kRows * kWidth, 0.5F);
    std::vector<float> out(x.size());
    model.forward({}, x.data(), out.data());
    const std::size_t stored = store->stored_bytes();
    require(stored > 0, "activations are in the store");
    model.data().abandon_step();
    model.experts().abandon_step();
    model.forward({}, x.data(), out.data());
    require(store->stored_bytes() == stored, "those of the abandoned pass are gone");
    model.data().abandon_step();
    model.experts().abandon_step();
    const auto scope = model.data().forward_only(), of_experts = model.experts().forward_only();
    const std::uint64_t copied = store->copied_bytes();
    model.evaluate({}, x.data(), out.data());
    require(store->copied_bytes() == copied, "an evaluation stores nothing");
  });
}

}  // namespace
}  // namespace sinew::parallel
