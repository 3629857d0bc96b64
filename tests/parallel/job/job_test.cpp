#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "small_engine.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Element k of parameter p starts as 10000 p + k.
double counted(std::int32_t p, std::int64_t k) { return static_cast<double>(10000 * p + k); }
void count_up(const InitialPart& part) {
  part.fill([&](std::int64_t k) { return counted(part.number, k); });
}

TEST(DataStrategy, FollowsTheConfiguration) {
  const EngineFacts engine = test::small_engine();
  const DataStrategy ddp = data_strategy(8, {}, engine);
  EXPECT_EQ(ddp.row.name, "ddp");
  EXPECT_EQ(ddp.shape.size(ddp.ranks), 8);
  EXPECT_THAT(ddp.sizes, ElementsAre(8));
  EXPECT_EQ(ddp.options.gradients, ReduceOp::Sum);

  const DataStrategy hsdp = data_strategy(8, {.zero = 3, .replicas = 2, .prefetch_bytes = 77}, engine);
  EXPECT_EQ(hsdp.row.name, "hsdp");
  EXPECT_THAT(hsdp.sizes, ElementsAre(4, 2));
  EXPECT_THAT(hsdp.shape.group_of(0, hsdp.row.axes[0].axis), ElementsAre(0, 1, 2, 3));  // what is sharded lies near
  EXPECT_THAT(hsdp.shape.group_of(0, hsdp.row.axes[1].axis), ElementsAre(0, 4));
  EXPECT_EQ(hsdp.shape.size(hsdp.ranks), 8);
  EXPECT_EQ(hsdp.options.step.gathered_bytes, 77);
}

TEST(DataStrategy, CutsTheRanksThatShardIntoNearAndFar) {
  const EngineFacts engine = test::small_engine();
  const JobConfig config{.zero = 3, .weights = WeightWire::Int8, .int4_gradients = true, .near_ranks = 4};
  const DataStrategy zero3 = data_strategy(8, config, engine);
  EXPECT_THAT(zero3.shape.group_of(5, zero3.near), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(zero3.sizes, ElementsAre(8));
  EXPECT_EQ(zero3.options.step.reshard_axes, zero3.near);
  EXPECT_EQ(zero3.options.step.scatter_axes, zero3.near);
  EXPECT_EQ(zero3.options.weights, WeightWire::Int8);
  EXPECT_TRUE(zero3.options.wire.int4);
  EXPECT_EQ(zero3.shape.size(zero3.samples), 8);

  JobConfig kept = config;
  kept.reshard = Reshard::AfterBackward;
  EXPECT_EQ(data_strategy(8, kept, engine).options.step.reshard_axes, "");

  JobConfig copies = config;
  copies.replicas = 2;
  copies.near_ranks = 2;
  const DataStrategy hsdp = data_strategy(8, copies, engine);
  EXPECT_THAT(hsdp.shape.group_of(2, hsdp.near), ElementsAre(2, 3));
  EXPECT_THAT(hsdp.shape.group_of(0, hsdp.row.axes[0].axis), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(hsdp.sizes, ElementsAre(4, 2));
  EXPECT_EQ(hsdp.shape.size(hsdp.ranks), 8);
}

/// An engine of eight units of 4 MiB in f32 runs on two hosts of four ranks. Half of each unit crosses to the other
/// host. The four ranks of a host share that.
TEST(Describe, SaysWhatIsSentBetweenHosts) {
  EngineFacts engine = test::small_engine();
  engine.parameters = [](const JobConfig& config, const RankPlace&) {
    std::vector<DataParameter> all;
    for (int u = 0; u < 8; ++u)
      all.push_back({.path = std::to_string(u),
                     .dtype = config.precision.parameter,
                     .elements = 1 << 20,
                     .unit = std::to_string(u)});
    return all;
  };
  const auto line = [&](const JobConfig& config) {
    const std::string all = describe(8, config, engine);
    return all.substr(all.find("traffic"));
  };
  EXPECT_EQ(line({.zero = 3, .reshard = Reshard::AfterBackward, .near_ranks = 4}),
            "traffic    8.00 MiB a step and rank between hosts of 4 near ranks: weights 4.00 (plain), gradients 4.00 "
            "(plain)");
  const std::string all = line({.zero = 3, .weights = WeightWire::Int8, .int4_gradients = true, .near_ranks = 4});
  EXPECT_EQ(all,
            "traffic    1.55 MiB a step and rank between hosts of 4 near ranks: weights 1.02 (int8), gradients 0.53 "
            "(int4)");
  EXPECT_THAT(line({}), HasSubstr("to other data-parallel ranks: weights 0.00 (plain), gradients 56.00 (plain)"));
}

TEST(Job, StartsFromTheSameValuesUnderEveryLayout) {
  for (const auto& [zero, replicas] : {std::pair(0, 1), {1, 1}, {2, 1}, {3, 1}, {3, 2}}) {
    on_threads(4, only("inproc"), [zero = zero, replicas = replicas](World& world) {
      Job job(world, {.zero = zero, .replicas = replicas}, test::small_engine(), count_up);
      require(job.sample_ranks() == 4 && job.sample_index() == world.rank() && job.samples_of_pass() == 4,
              "a part of the batch for each rank");
      require(job.summing().size() == 4, "all ranks sum");
      const auto scope = job.data().forward_only();
      for (std::int32_t unit = 0; unit < 3; ++unit) {
        job.data().before_forward(unit);
        const Buffer whole = job.data().parameter(unit);
        std::vector<float> expected(whole.bytes / sizeof(float));
        for (std::size_t k = 0; k < expected.size(); ++k)
          expected[k] = static_cast<float>(counted(unit, static_cast<std::int64_t>(k)));
        require(std::memcmp(whole.data, expected.data(), whole.bytes) == 0, "other values");
        job.data().after_forward(unit);
      }
      job.data().finish_forward();
    });
  }
}

/// ZeRO++ on two copies of four shards, with two near ranks: sums in two stages, then over the copies.
TEST(Job, SumsQuantisedGradients) {
  on_threads(8, only("inproc"), [](World& world) {
    const JobConfig config{
        .zero = 3, .replicas = 2, .weights = WeightWire::Int8, .int4_gradients = true, .near_ranks = 2};
    Job job(world, config, test::small_engine(), count_up);
    const auto value = [](int rank, std::int64_t k) { return std::sin(1.3 * static_cast<double>(k) + 2.1 * rank); };
    DataParallel& data = job.data();
    for (int step = 0; step < 2; ++step) {
      for (std::int32_t u = 0; u < 3; ++u) {
        data.before_forward(u);
        const float last = data.parameter<float>(u).back();
        const double exact = counted(u, std::ssize(data.parameter<float>(u)) - 1);
        require(std::abs(static_cast<double>(last) - exact) <= exact / 253, "a weight within the bound");
        data.after_forward(u);
      }
      for (std::int32_t u = 3; u-- > 0;) {
        data.before_backward(u);
        const std::span<float> gradient = data.gradient<float>(u);
        for (std::size_t k = 0; k < gradient.size(); ++k)
          gradient[k] += static_cast<float>(value(world.rank(), static_cast<std::int64_t>(k)));
        data.gradient_ready(u);
        data.after_backward(u);
      }
      for (const OwnedPart& part : data.finish_backward()) {
        for (std::int64_t k = part.first; k < part.last; ++k) {
          double exact = 0;
          for (int r = 0; r < 8; ++r) exact += value(r, k);
          const float found = reinterpret_cast<const float*>(part.gradient.data)[k - part.first];
          require(std::abs(static_cast<double>(found) - exact) < 8 * 2.1 / 13.8, "a sum within the bound");
        }
      }
      data.updated();
    }
  });
}

TEST(Job, SaysAllThatIsWrong_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    const std::string what =
        complaint([&] { Job(world, {.zero = 5, .global_batch = 16}, test::small_engine(), count_up); });
    require(what.find("job of 3 ranks breaks 2 rules:\n") != std::string::npos, what);
    require(what.find("zero: zero 5, of 0 to 3; expected zero 3") != std::string::npos, what);
    require(
        what.find("global_batch: 16 samples for 3 data-parallel ranks; expected global_batch 15 or global_batch 18") !=
            std::string::npos,
        what);
  });
}

TEST(Job, NamesTheRankWhoseConfigurationIsAnother) {
  on_threads(3, only("inproc"), [](World& world) {
    const std::uint64_t seed = world.rank() == 1 ? 7 : 1;
    const std::string what =
        complaint([&] { Job(world, {.global_batch = 3, .seed = seed}, test::small_engine(), count_up); });
    require(what.find("configuration of the job: rank 0 has") != std::string::npos, what);
    require(what.find("rank 1 ") != std::string::npos && what.find("seed 7") != std::string::npos, what);
  });
}

/// Also where the setting has no effect without another one: it would break a rule, on that rank alone.
TEST(Job, NamesTheRankThatAsksForDecomposedLayers) {
  on_threads(2, only("inproc"), [](World& world) {
    const std::string what = complaint(
        [&] { Job(world, {.decomposed = world.rank() == 1, .global_batch = 2}, test::small_engine(), count_up); });
    require(what.find("configuration of the job: rank 0 has") != std::string::npos, what);
    require(what.find("rank 1 'tp 1 decomposed cp 1") != std::string::npos, what);
  });
}

TEST(JobConfig, CountsStagesOfNonsense) {
  JobConfig config;
  config.layout.pp = 2;
  config.virtual_stages = 2000000000;
  EXPECT_EQ(stages(config), 2147483647);
  config.virtual_stages = -2000000000;
  EXPECT_LT(stages(config), 0);
}

TEST(PipelineSchedule, RefusesMoreMicroBatchesThanItCanNumber) {
  JobConfig config;
  config.layout.pp = 2;
  config.micro_batches = (std::int64_t{1} << 32) + 2;  // 2 where it is cut off
  EXPECT_THAT(complaint([&] { static_cast<void>(schedule_of(config)); }), HasSubstr("4294967298 micro-batches"));
}

/// Other ranks may have agreed on what was in it before.
TEST(PipelineSchedule, IsThatOfTheFile_AsItWasReadOnce) {
  sinew::test::ScratchFolder folder;
  JobConfig config{.schedule = folder / "s.csv"};
  config.layout.pp = 2;
  config.micro_batches = 2;
  std::ofstream(config.schedule) << "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n";
  config.proved = proved_schedule(config);
  ASSERT_NE(config.proved, nullptr);
  const PipelineSchedule first = schedule_of(config);
  std::ofstream(config.schedule) << "0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n";
  EXPECT_EQ(schedule_of(config), first);
  JobConfig other = config;
  other.schedule = "1f1b";  // it is of the settings that it was made of
  EXPECT_NE(schedule_of(other), first);
  config.proved = nullptr;
  EXPECT_NE(schedule_of(config), first);
}

TEST(PipelineSchedule, HasLateWeights_WhereItsGeneratorSplitsBackwardPasses) {
  for (const NamedGenerator& generator : generators()) {
    for (const int pp : {1, 2, 3, 4}) {
      for (const int micro_batches : {1, 3, 8}) {
        JobConfig config;
        config.layout.pp = pp;
        config.schedule = generator.name;
        config.virtual_stages = generator.virtual_stages(2);
        config.micro_batches = micro_batches;
        const PipelineSchedule schedule = schedule_of(config);
        const bool is_dual = generator.name == "dualpipev" && (pp > 1 || micro_batches > 1);
        EXPECT_EQ(has_late_weights(schedule), generator.name == "zb-h1" || generator.name == "zb-v" || is_dual);
      }
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
