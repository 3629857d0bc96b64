// Jobs whose data parallelism follows the schedule of their pipeline, and the memory that was predicted for them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/job/stage_sharding.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "../support/adding_stages.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kLayers = 8;

std::int32_t stage_of_layer(const JobConfig& config, int layer) { return layer * stages(config) / kLayers; }

std::vector<int> layers_on(const JobConfig& config, int pp) {
  if (stages(config) == 1) return {0, 1, 2, 3, 4, 5, 6, 7};
  const PipelineSchedule schedule = make_schedule(config.schedule, config.layout.pp, 1, config.virtual_stages);
  std::vector<int> layers;
  for (int l = 0; l < kLayers; ++l) {
    if (schedule.rank_of[static_cast<std::size_t>(stage_of_layer(config, l))] == pp) layers.push_back(l);
  }
  return layers;
}

/// Layers of unequal lengths, of two units each.
EngineFacts layered_engine() {
  return {.axes = {"dp", "pp"},
          .most_pp = kLayers,
          .parameters =
              [](const JobConfig& config, const RankPlace& place) {
                std::vector<DataParameter> all;
                for (const int l : layers_on(config, place.pp)) {
                  for (const char* half : {"up", "down"})
                    all.push_back({.path = fmt::format("{}.{}", l, half),
                                   .dtype = config.precision.parameter,
                                   .elements = 5000 + 700 * l,
                                   .unit = fmt::format("{}.{}", l, half),
                                   .gradient = config.precision.gradient,
                                   .spread = stages(config) > 1 ? "pp" : ""});
                }
                return all;
              },
          .takes_stage_actions = true,
          .stage_of_unit = [](const JobConfig& config,
                              const std::string& unit) { return stage_of_layer(config, std::stoi(unit)); }};
}

JobConfig config_of(const char* schedule, int zero, std::int64_t budget) {
  JobConfig config{.zero = zero, .schedule = schedule, .global_batch = 16, .micro_batches = 4};
  config.layout.pp = 2;
  config.virtual_stages = find_generator(schedule)->virtual_stages(2);
  config.prefetch_bytes = budget;
  return config;
}

/// Trains three steps of a job. Requires that what a rank holds is at most what was predicted, and at least 95 % of it,
/// and that it is used.
void require_predicted(const JobConfig& config) {
  on_threads(4, only("inproc"), [&](World& world) {
    const EngineFacts facts = layered_engine();
    const std::string what = fmt::format("zero {} {} budget {}", config.zero, config.schedule, config.prefetch_bytes);
    Job job(world, config, facts, [](const InitialPart& part) { part.fill([](std::int64_t) { return 1.0; }); });
    test::AddingStages engine(job, facts);
    PipelineRunner runner(job.pipeline(), job.schedule(), engine, {&job.data().protocol()});
    Optimizer adam(job.data().memory(), AdamOptions{});
    for (int step = 0; step < 3; ++step) {
      runner.run();
      const std::vector<OwnedPart> owned = job.data().finish_backward();
      for (const OwnedPart& part : owned) {
        const auto* gradient = reinterpret_cast<const float*>(part.gradient.data);
        require(std::all_of(gradient, gradient + (part.last - part.first), [](float g) { return g == 8; }),
                what + ": each gradient is the sum of four microbatches of two ranks");
      }
      adam.update(owned);
      job.data().updated();
    }
    const MemoryPlan predicted = predict_memory(world.size(), config, facts, job.place()).held;
    const HeldBytes& held = job.data().held();
    std::size_t all_held = 0, all_predicted = 0;
    for (const Purpose p : {Purpose::Parameter, Purpose::Gradient, Purpose::Optimizer, Purpose::Underway}) {
      all_held += held.most_of(p);
      all_predicted += predicted.of(p);
    }
    require(all_held <= all_predicted && all_predicted * 95 <= all_held * 100,
            fmt::format("{}: {} bytes held, {} predicted", what, all_held, all_predicted));
    // The memory that is reserved for the step is used, except where sums end sooner than they may.
    const std::size_t underway = predicted.of(Purpose::Underway);
    require(engine.most_underway <= underway && underway <= 2 * engine.most_underway,
            fmt::format("{}: {} bytes in use at a time, {} predicted", what, engine.most_underway, underway));
  });
}

TEST(StageSharding, IsPredictedWithinFivePercent) {
  for (const char* schedule : {"1f1b", "interleaved", "looped-bfs", "zb-v"}) {
    for (const int zero : {0, 1, 2, 3}) require_predicted(config_of(schedule, zero, 0));
    // With the least budget that is enough.
    JobConfig tight = config_of(schedule, 3, 1);
    const std::string least = to_string(violations(4, tight, layered_engine()));
    const std::size_t at = least.find("expected ", least.find("a budget of 1 bytes"));
    ASSERT_NE(at, std::string::npos) << least;
    tight.prefetch_bytes = std::stoll(least.substr(at + 9));
    require_predicted(tight);
  }
}

TEST(StageSharding, ChangesWithTheBudget) {
  const EngineFacts facts = layered_engine();
  const ShardingChoice all = sharded_schedule(4, config_of("interleaved", 3, 0), facts);
  EXPECT_EQ(all.active, 2);
  const JobConfig fewer = config_of("interleaved", 3, all.most_bytes - 1);
  EXPECT_LT(sharded_schedule(4, fewer, facts).most_bytes, all.most_bytes);
  EXPECT_LT(predict_memory(4, fewer, facts).total(), predict_memory(4, config_of("interleaved", 3, 0), facts).total());
  EXPECT_EQ(to_string(violations(4, fewer, facts)), "");
}

TEST(StageSharding, SaysWhyItCannotBe) {
  EngineFacts facts = layered_engine();
  const auto found = [&](const JobConfig& config) { return to_string(violations(4, config, facts)); };
  EXPECT_THAT(found(config_of("1f1b", 3, 1)), HasSubstr("stage_actions: choose_sharding: a budget of 1 bytes"));
  EXPECT_THAT(found(config_of("1f1b", 1, 1)), HasSubstr("with zero 1 nothing is gathered or scattered ahead"));
  sinew::test::ScratchFolder folder;
  JobConfig from_file = config_of("1f1b", 3, 0);
  from_file.schedule = folder / "s.csv";
  from_file.micro_batches = 1;
  facts.parameters = [](const JobConfig& config, const RankPlace& place) {
    JobConfig same = config;
    same.schedule = "1f1b";
    return layered_engine().parameters(same, place);
  };
  const auto of_file = [&](const std::string& rows, int zero, std::int64_t budget = 0) {
    std::ofstream(from_file.schedule) << rows;
    from_file.zero = zero;
    from_file.prefetch_bytes = budget;
    return found(from_file);
  };
  const std::string sums = "0F0,0B0,0REDUCE\n1F0,1B0,1REDUCE\n";
  const std::string gathers = "0UNSHARD,0F0,0B0,0REDUCE,0RESHARD\n1UNSHARD,1F0,1B0,1REDUCE,1RESHARD\n";
  EXPECT_EQ(of_file(sums, 2), "");
  EXPECT_THAT(of_file(sums, 3), HasSubstr("computes while its parameters are sharded, expected an Unshard before it"));
  EXPECT_EQ(of_file(gathers, 3), "");
  EXPECT_THAT(of_file(gathers, 3, 1000000), HasSubstr("a budget of 1000000 bytes beside schedule"));
  facts.stage_of_unit = [](const JobConfig&, const std::string&) { return 9; };
  EXPECT_THAT(found(config_of("1f1b", 3, 0)), HasSubstr("in stage 9, expected a stage of 0 to 1"));
  facts.stage_of_unit = {};
  EXPECT_THAT(found(config_of("1f1b", 3, 1000)), HasSubstr("all stages of a pipeline's rank are gathered at once"));
}

}  // namespace
}  // namespace sinew::parallel
