// Stacks of layers in the stages of pipelines whose parameters and gradients are sharded. Every schedule under every
// row and every budget trains as one rank does, holds no more than was predicted, and bears random delays.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/choose_sharding.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>
#include <sinew/parallel/sharded_stages/unit_order_of.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;

constexpr int kLayers = 8, kBatch = 96, kMicroBatches = 8, kWidth = 16, kSteps = 3;
// A layer as it lies in memory: two shards of it need no padding.
constexpr std::int64_t kLayerBytes = (kWidth * kWidth + kWidth) * 8;

/// A schedule that asks for the given number of stages at a time. 0: PipelinedModel chooses.
struct Sharding {
  int active = 0;
  ReduceEvery reduces = ReduceEvery::Step;
  std::int64_t budget = 0;
};

struct Setting {
  std::string row = "ddp", schedule = "1f1b";
  int dp = 1, pp = 1;
  Sharding sharding{};
  int outside = 0;  ///< layers of each stage that are in no Unit
  int passes = 1;   ///< steps of the pipeline before an update, all but the last within no_sync()

  int ranks() const { return dp * pp; }
  std::string text() const {
    return fmt::format("{} {} dp {} pp {} active {} reduces {} budget {}", row, schedule, dp, pp, sharding.active,
                       sharding.reduces == ReduceEvery::Step ? "once" : "again", sharding.budget);
  }
};

/// Calls a function after each pass of the module that it has.
class Watched final : public Module<double> {
 public:
  Watched(ModulePtr<double> module, std::function<void()> watch)
      : module_(std::move(module)), watch_(std::move(watch)) {}
  std::int64_t in_elements() const override { return module_->in_elements(); }
  std::int64_t out_elements() const override { return module_->out_elements(); }
  void declare(ParameterList& list) override { module_->declare(list); }
  void forward(Pass<double>& pass, const double* x, Kept<double>& kept, double* out) override {
    module_->forward(pass, x, kept, out);
    watch_();
  }
  void input_gradient(Pass<double>& pass, const double* x, Kept<double>& kept, const double* dout,
                      double* dx) override {
    module_->input_gradient(pass, x, kept, dout, dx);
    watch_();
  }
  void weight_gradient(Pass<double>& pass, const double* x, Kept<double>& kept, const double* dout) override {
    module_->weight_gradient(pass, x, kept, dout);
    watch_();
  }

 private:
  ModulePtr<double> module_;
  std::function<void()> watch_;
};

/// The results of a rank.
struct Found {
  std::vector<double> losses;
  std::size_t most_underway = 0, planned = 0;
  std::int64_t predicted = 0;  ///< stage_memory() of this rank
};

/// Figures of all runs of this program, which it shows at its end.
class Figures final : public ::testing::Environment {
 public:
  void TearDown() override {
    if (runs == 0) return;
    std::printf("sharded pipelines: %d runs, loss %.1e, planned %.3f to %.3f of what is predicted\n", runs.load(), loss,
                least, most);
  }
  void add_loss(double difference) {
    const std::lock_guard lock(mutex);
    loss = std::max(loss, difference);
  }
  void add_share(double planned_of_predicted) {
    const std::lock_guard lock(mutex);
    least = std::min(least, planned_of_predicted);
    most = std::max(most, planned_of_predicted);
  }

  std::mutex mutex;
  std::atomic<int> runs = 0;
  double loss = 0, least = 1, most = 1;
};
Figures& figures = *static_cast<Figures*>(::testing::AddGlobalTestEnvironment(new Figures));

class Training {
 public:
  Training(World& world, const Setting& s, std::optional<unsigned> delays = {})
      : setting_(s),
        mesh_(world.communicator(), shape(s), groups(s)),
        rows_(kBatch / s.dp / kMicroBatches / s.passes),
        random_(delays.value_or(0) * 100 + static_cast<unsigned>(world.rank())),
        delays_(delays.has_value()) {
    PipelineSchedule schedule =
        make_schedule(s.schedule, s.pp, kMicroBatches, find_generator(s.schedule)->virtual_stages(2));
    schedule = with_messages(std::move(schedule));
    if (s.sharding.active > 0) schedule = with_sharding(schedule, s.sharding.active, s.sharding.reduces);
    std::vector<ModulePtr<double>> stages;
    for (std::int32_t stage = 0; stage < schedule.stages(); ++stage) {
      if (schedule.rank_of[static_cast<std::size_t>(stage)] == mesh_.index("pp"))
        stages.push_back(stage_of(stage, schedule.stages()));
    }
    ModelOptions options{.row = row(s), .parameter = DType::F64, .spread = "pp"};
    options.data.step.gathered_bytes = s.sharding.budget;
    model_.emplace(
        mesh_, mesh_.along("pp"), schedule, std::move(stages),
        PipelineEnds<double>{.input = [this](std::int32_t m, double* x) { write_input(m, x); },
                             .loss = [this](std::int32_t m, double* out) { turn_into_gradient(m, out); }},
        [&world](std::size_t bytes) { return world.allocate(bytes); }, options);
    sgd_.emplace(model_->data().memory(), SgdOptions{.rate = 0.3});
  }

  Found run() {
    Found found;
    for (int step = 0; step < kSteps; ++step) {
      mine_ = {};
      for (pass_ = 0; pass_ < setting_.passes; ++pass_) {
        std::optional<DataParallel::Scope> scope;
        if (pass_ + 1 < setting_.passes) scope.emplace(model_->data().no_sync());
        model_->step();
        if (scope) require(model_->data().finish_backward().empty(), "no parts within no_sync()");
      }
      const WeightedLoss loss = sum(mine_);
      sgd_->update(model_->data().finish_backward(), loss.scale());
      model_->data().updated();
      found.losses.push_back(loss.mean());
    }
    mine_ = {};
    const auto scope = model_->data().forward_only();
    for (pass_ = 0; pass_ < setting_.passes; ++pass_) model_->evaluate();
    found.losses.push_back(sum(mine_).mean());
    found.most_underway = most_;
    found.planned = model_->data().planned().of(Purpose::Underway);
    found.predicted = predicted();
    return found;
  }

  PipelinedModel<double>& model() { return *model_; }

 private:
  static Factorisation shape(const Setting& s) {
    if (s.row != "hsdp") return Factorisation({{"dp", s.dp}, {"pp", s.pp}});
    const int copies = s.dp % 2 == 0 && s.dp > 2 ? 2 : 1;
    return Factorisation({{"shard", s.dp / copies}, {"copies", copies}, {"pp", s.pp}});
  }
  static std::vector<std::string> groups(const Setting& s) {
    if (s.row != "hsdp") return {"dp", "pp"};
    return {"shard", "copies", "pp", "shard-copies"};
  }
  static std::string all_data(const Setting& s) { return s.row == "hsdp" ? "shard-copies" : "dp"; }
  static DataRow row(const Setting& s) {
    return s.row == "hsdp" ? data_row(s.row, {"shard", "copies"}) : data_row(s.row, {"dp"});
  }

  ModulePtr<double> stage_of(int stage, int stages) {
    std::vector<ModulePtr<double>> layers;
    for (int l = stage * kLayers / stages; l < (stage + 1) * kLayers / stages; ++l) {
      const std::string name = fmt::format("layer{}", l);
      const LinearShape shape{.name = name, .rows = rows_, .inputs = kWidth, .outputs = kWidth};
      ModulePtr<double> layer = std::make_unique<Watched>(
          residual<double>(sequence<double>(std::make_unique<ColumnModule<double>>(LayerGroup{alone_, &blas_}, shape,
                                                                                   LinearOptions{.deviation = 0.15}),
                                            std::make_unique<Pointwise<double>>(rows_ * kWidth, gelu<double>()))),
          [this] { watch(); });
      const bool is_outside = l - stage * kLayers / stages < setting_.outside;
      layers.push_back(is_outside ? std::move(layer) : unit<double>(name, std::move(layer)));
    }
    return sequence<double>(std::move(layers));
  }

  void watch() {
    if (model_) most_ = std::max(most_, model_->data().held().of(Purpose::Underway));
    if (delays_ && random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 700));
  }

  /// Each row is to become its own mirror image.
  double value(int micro_batch, int k) const {
    const int row = ((mesh_.index(all_data(setting_)) * setting_.passes + pass_) * kMicroBatches + micro_batch) *
                        static_cast<int>(rows_) +
                    k / kWidth;
    return std::sin(1.0 + row * kWidth + k % kWidth);
  }
  void write_input(int m, double* x) const {
    for (int k = 0; k < rows_ * kWidth; ++k) x[k] = value(m, k);
  }
  void turn_into_gradient(int m, double* out) {
    for (int k = 0; k < rows_ * kWidth; ++k) {
      out[k] -= value(m, k / kWidth * kWidth + kWidth - 1 - k % kWidth);
      mine_ += {out[k] * out[k], 1};
      out[k] *= 2;
    }
  }
  WeightedLoss sum(const WeightedLoss& loss) {
    return total(mesh_.along(all_data(setting_)), total(mesh_.along("pp"), loss));
  }

  std::int64_t predicted() const {
    const PipelineSchedule& schedule = model_->schedule();
    const int shards = setting_.row == "hsdp" ? mesh_.size("shard") : setting_.dp;
    const std::int64_t layers = kLayers / schedule.stages();
    const bool gathers = sharded_axis(row(setting_)).parameter == Held::Sharded;
    const bool scatters = sharded_axis(row(setting_)).gradient == Held::Sharded;
    const StageBytes of_stage{gathers ? layers * kLayerBytes : 0, scatters ? layers * kLayerBytes : 0,
                              scatters ? layers * kLayerBytes / shards : 0};
    const std::vector<StageBytes> all(static_cast<std::size_t>(schedule.stages()), of_stage);
    const PipelineVerdict verdict = prove(schedule, {.stages = all});
    require(verdict.ok, verdict.reason);
    return verdict.memory.most[static_cast<std::size_t>(mesh_.index("pp"))].bytes;
  }

  Setting setting_;
  HostBlas blas_;
  Communicator alone_;
  Mesh mesh_;
  std::int64_t rows_;
  std::mt19937 random_;
  bool delays_;
  int pass_ = 0;
  std::size_t most_ = 0;
  WeightedLoss mine_;
  std::optional<PipelinedModel<double>> model_;
  std::optional<Optimizer> sgd_;
};

const std::vector<double>& losses_of_one_rank() {
  static const std::vector<double> losses = [] {
    std::vector<double> found;
    on_threads(1, only("inproc"), [&](World& world) { found = Training(world, {.schedule = "gpipe"}).run().losses; });
    return found;
  }();
  return losses;
}

void compare(const Setting& setting, std::optional<unsigned> delays = {}) {
  const std::vector<double>& expected = losses_of_one_rank();
  ASSERT_EQ(expected.size(), kSteps + 1);
  ASSERT_LT(expected.back(), 0.9 * expected.front()) << "it does not learn";
  ++figures.runs;
  on_threads(setting.ranks(), only("inproc"), [&](World& world) {
    const Found found = Training(world, setting, delays).run();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      figures.add_loss(std::abs(found.losses[i] - expected[i]) / std::abs(expected[i]));
      require(
          std::abs(found.losses[i] - expected[i]) <= 1e-12 * std::abs(expected[i]),
          fmt::format("{}: loss {} is {:.15f} instead of {:.15f}", setting.text(), i, found.losses[i], expected[i]));
    }
    require(found.most_underway <= found.planned,
            fmt::format("{}: {} bytes held, {} planned", setting.text(), found.most_underway, found.planned));
  });
}

constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-v", "dualpipev"};
constexpr const char* kRows[] = {"ddp", "zero1", "zero2", "zero3", "hsdp"};

class ShardedPipelines : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(ShardedPipelines, TrainAsOneRank) {
  const auto& [schedule, row] = GetParam();
  for (const auto& [dp, pp] : {std::pair(2, 2), {2, 4}, {3, 2}})
    compare({.row = row, .schedule = schedule, .dp = dp, .pp = pp});
}

INSTANTIATE_TEST_SUITE_P(Modules, ShardedPipelines,
                         ::testing::Combine(::testing::ValuesIn(kSchedules), ::testing::ValuesIn(kRows)),
                         [](const auto& of) {
                           std::string name = fmt::format("{}_{}", std::get<0>(of.param), std::get<1>(of.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// However few stages are gathered at a time, and however often gradients are summed.
class SmallBudgets : public ::testing::TestWithParam<const char*> {};

TEST_P(SmallBudgets, TrainAsOneRank) {
  for (const char* row : {"zero2", "zero3", "hsdp"}) {
    for (const Sharding& sharding :
         {Sharding{1, ReduceEvery::Step}, Sharding{1, ReduceEvery::MicroBatch}, Sharding{2, ReduceEvery::MicroBatch}}) {
      const bool copies = row == std::string("hsdp");
      compare({.row = row, .schedule = GetParam(), .dp = copies ? 4 : 2, .pp = 2, .sharding = sharding});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, SmallBudgets, ::testing::ValuesIn(kSchedules), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(ShardedPipelines, TrainLayersOutsideUnits_AndAddUpOverSteps) {
  for (const char* row : {"ddp", "zero2", "zero3"}) {
    compare({.row = row, .schedule = "interleaved", .dp = 2, .pp = 2, .outside = 1});
    compare({.row = row, .schedule = "zb-v", .dp = 2, .pp = 2, .outside = 5, .passes = 2});
  }
  compare({.row = "zero3",
           .schedule = "looped-bfs",
           .dp = 2,
           .pp = 2,
           .sharding = {1, ReduceEvery::MicroBatch},
           .passes = 2});
}

/// Ranks of one data-parallel group are at different places of the schedule, and so are those of a pipeline.
TEST(ShardedPipelines, BearDelays) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    for (const char* schedule : {"interleaved", "looped-bfs", "zb-v", "dualpipev"}) {
      compare({.row = "zero3", .schedule = schedule, .dp = 2, .pp = 2, .sharding = {1, ReduceEvery::Step}}, seed);
      compare({.row = "hsdp", .schedule = schedule, .dp = 4, .pp = 2, .sharding = {1, ReduceEvery::MicroBatch}}, seed);
    }
    compare({.row = "zero2", .schedule = "1f1b", .dp = 3, .pp = 2}, seed);
  }
}

/// The plan is the prediction of stage_memory(), except for padding. A rank holds no more.
TEST(ShardedPipelines, HoldWhatIsPredicted) {
  for (const char* schedule : kSchedules) {
    for (const char* row : {"zero2", "zero3", "hsdp"}) {
      for (const Sharding& sharding :
           {Sharding{}, Sharding{1, ReduceEvery::Step}, Sharding{1, ReduceEvery::MicroBatch}}) {
        const Setting setting{.row = row, .schedule = schedule, .dp = 2, .pp = 2, .sharding = sharding};
        on_threads(setting.ranks(), only("inproc"), [&](World& world) {
          Training training(world, setting);
          const Found found = training.run();
          const HeldBytes& held = training.model().data().held();
          const std::string what = fmt::format("{}: {} bytes of {} planned were held at most, {} predicted",
                                               setting.text(), found.most_underway, found.planned, found.predicted);
          require(found.most_underway <= found.planned, what);
          require(held.most_of(Purpose::Underway) == found.planned && held.of(Purpose::Underway) == 0, what);
          const auto planned = static_cast<std::int64_t>(found.planned);
          if (found.predicted > 0)
            figures.add_share(static_cast<double>(planned) / static_cast<double>(found.predicted));
          require(planned <= found.predicted * 105 / 100 && planned >= found.predicted * 95 / 100, what);
          // Sums may end sooner than they are waited for. With one sum in a step this makes less of a difference.
          if (sharding.reduces == ReduceEvery::Step) require(found.most_underway * 2 >= found.planned, what);
        });
      }
    }
  }
}

/// Under zero2, whole gradients of a rank's two stages exist only from the first backward pass to the sum.
TEST(ShardedPipelines, FreeGradientsBetweenTheirSums) {
  const auto planned = [](const char* schedule, const Sharding& sharding) {
    std::size_t most = 0;
    on_threads(2, only("inproc"), [&](World& world) {
      const Setting setting{.row = "zero2", .schedule = schedule, .dp = 2, .pp = 1, .sharding = sharding};
      const Found found = Training(world, setting).run();
      if (world.rank() == 0) most = found.planned;
    });
    return static_cast<std::int64_t>(most);
  };
  const std::int64_t all = kLayers * kLayerBytes;
  EXPECT_EQ(planned("looped-bfs", {.active = 1}), all);  // two stages: one is summed while the other one adds
  EXPECT_EQ(planned("interleaved", {.active = 1}), all);
  // The gradients of both stages are on their way, each beside this rank's part of an earlier sum.
  EXPECT_EQ(planned("interleaved", {1, ReduceEvery::MicroBatch}), all + all / 2);
}

TEST(ShardedPipelines, ChooseByTheBudget) {
  on_threads(4, only("inproc"), [](World& world) {
    const Setting loose{.row = "zero3", .schedule = "interleaved", .dp = 2, .pp = 2};
    Training all(world, loose);
    require_part(all.model().why(), "2 of 2 stages of a rank at a time, gradients summed once a step");
    Setting tight = loose;
    tight.sharding.budget = 3 * kLayers / 4 * kLayerBytes;  // three stages
    Training few(world, tight);
    require_part(few.model().why(), "1 of 2 stages of a rank at a time");
    require_part(few.model().why(), fmt::format("bytes of {}; too much: 2 of 2", tight.sharding.budget));
    const Found found = few.run();
    require(static_cast<std::int64_t>(found.most_underway) <= tight.sharding.budget, "more than the budget");
    const std::vector<double>& expected = losses_of_one_rank();
    require(std::abs(found.losses.back() - expected.back()) <= 1e-12 * expected.back(), "another loss");
  });
}

/// A stage of four layers, of which two are gathered at a time, in every pass.
TEST(ShardedPipelines, GatherUnitsOfAStageInTurn) {
  const auto run = [](Setting setting, double layers, std::optional<unsigned> delays = {}) {
    setting.sharding.budget = static_cast<std::int64_t>(layers * kLayerBytes);
    on_threads(setting.ranks(), only("inproc"), [&](World& world) {
      Training training(world, setting);
      require_part(training.model().why(), "units of a stage one after the other in each pass, gradients summed ");
      const bool again = training.model().why().find("after each microbatch: ") != std::string::npos;
      require(again == (layers < 6), training.model().why());
      const Found found = training.run();
      require(static_cast<std::int64_t>(found.planned) <= setting.sharding.budget, "the plan is within the budget");
    });
    compare(setting, delays);
  };
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const char* row : {"zero3", "hsdp"}) {
      const Setting setting{
          .row = row, .schedule = schedule, .dp = row == std::string("hsdp") ? 4 : 2, .pp = 2, .sharding = {}};
      run(setting, 6.5);     // two layers, and the gradients of four
      run(setting, 5.5, 7);  // two layers, their gradients, and this rank's part of earlier sums
    }
    run({.row = "zero3", .schedule = schedule, .dp = 2, .pp = 2, .outside = 1, .passes = 2}, 7.5);
  }
}

std::string refusal(World& world, const Setting& setting) {
  return sinew::test::complaint([&] { Training training(world, setting); });
}

TEST(ShardedPipelines, SayWhatCannotBeCombined) {
  on_threads(4, only("inproc"), [](World& world) {
    const auto says = [&](const Setting& setting, const std::string& text) {
      require_part(refusal(world, setting), text);
    };
    Setting s{.row = "zero3", .schedule = "interleaved", .dp = 2, .pp = 2};
    s.sharding.budget = 100;
    says(s, "choose_sharding: a budget of 100 bytes for 'interleaved', expected ");
    s.sharding.active = 1;
    says(s, "a budget of 100 bytes beside 'interleaved', which says itself when stages are gathered");
    says({.row = "zero1", .schedule = "1f1b", .dp = 2, .pp = 2, .sharding = {1, ReduceEvery::MicroBatch}},
         "is reduced more than once in a step, expected one Reduce, because row 'zero1' keeps whole gradients");
  });
}

}  // namespace
}  // namespace sinew::parallel
