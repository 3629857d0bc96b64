#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "../support/mlp.hpp"
#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::ScratchFolder;
using test::bytes_of;
using test::Mlp;

constexpr int kBatch = 60;  // of all ranks: a multiple of 1 to 5

enum class Saves { AtOnce, ByACheckpointer };

struct Job {
  std::string row = "ddp";
  int ranks = 1;
  Saves saves = Saves::AtOnce;
  Determinism determinism = Determinism::Fast;
};

/// A model, its strategy and optimizer on one rank, and what the engine does.
class Trainer {
 public:
  Trainer(World& world, const Job& run)
      : world_(world),
        mesh_(world.communicator(), shape(run), axes(run)),
        initial_(model_.initial()),
        values_(views(initial_)),
        data_(mesh_, shaped(model_.parameters()), values_, data_row(run.row, axes(run)),
              [&world](std::size_t bytes) { return world.allocate(bytes); }, {.determinism = run.determinism}),
        adam_(data_.memory(), AdamOptions{.rate = 0.02, .weight_decay = 0.01}) {}

  double step(int number) {
    const int mine = kBatch / world_.size();
    const auto in = static_cast<std::size_t>(model_.inputs()), out = static_cast<std::size_t>(model_.outputs());
    std::vector<double> x(static_cast<std::size_t>(mine) * in), target(static_cast<std::size_t>(mine) * out);
    for (int s = 0; s < mine; ++s) {
      const auto k = static_cast<std::size_t>(s);
      test::sample<double>(std::int64_t{number} * kBatch + world_.rank() * mine + s, std::span(x).subspan(k * in, in),
                           std::span(target).subspan(k * out, out));
    }
    Mlp<double>::Hooks hooks{.value = [&](int p) { return reinterpret_cast<double*>(data_.parameter(p).data); },
                             .gradient = [&](int p) { return reinterpret_cast<double*>(data_.gradient(p).data); },
                             .before_forward = [&](int u) { data_.before_forward(u); },
                             .after_forward = [&](int u) { data_.after_forward(u); },
                             .before_backward = [&](int u) { data_.before_backward(u); },
                             .after_backward = [&](int u) { data_.after_backward(u); },
                             .gradient_ready = [&](int p) { data_.gradient_ready(p); }};
    std::array<double, 1> loss{model_.pass(x, target, 1.0 / mine, hooks)};
    adam_.update(data_.finish_backward());
    data_.updated();
    world_.communicator().all_reduce(loss, ReduceOp::Average, {.determinism = Determinism::Reproducible}).get();
    return loss[0];
  }

  void save(const std::string& folder, int steps, Saves how) {
    const auto parts = parts_to_save(data_, adam_);
    const CheckpointMetadata metadata{.step = steps, .optimizer_steps = adam_.steps()};
    if (how == Saves::AtOnce) return save_checkpoint(world_.communicator(), folder, parts, metadata);
    AsyncCheckpointer checkpointer(world_.communicator(), folder);
    checkpointer.follow(data_);
    (void)checkpointer.save(parts, metadata);
    for (int more = 0; more < 3; ++more) (void)step(steps + more);  // they change all of it
    checkpointer.finish();
  }

  int load(const std::string& folder) {
    const auto loaded = load_checkpoint(world_.communicator(), step_folder(folder, latest_step(folder).value()),
                                        parts_to_load(data_, adam_));
    require(loaded.unread.empty(), "items that nobody read");
    adam_.restore_steps(loaded.metadata.optimizer_steps);
    return static_cast<int>(loaded.metadata.step);
  }

 private:
  /// A weight and a bias for each layer.
  static std::vector<DataParameter> shaped(std::vector<DataParameter> parameters) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const int outputs = kWidth[p / 2 + 1];
      parameters[p].shape = {outputs};
      if (p % 2 == 0) parameters[p].shape.push_back(kWidth[p / 2]);
    }
    return parameters;
  }
  static Factorisation shape(const Job& run) {
    const int two = run.ranks % 2 == 0 ? 2 : 1;
    if (run.row != "hsdp") return Factorisation({{"dp", run.ranks}});
    return Factorisation({{"fsdp", run.ranks / two}, {"copies", two}});
  }
  static std::vector<std::string> axes(const Job& run) {
    return run.row == "hsdp" ? std::vector<std::string>{"fsdp", "copies"} : std::vector<std::string>{"dp"};
  }
  static std::vector<ConstBuffer> views(const std::vector<std::vector<double>>& values) {
    std::vector<ConstBuffer> all;
    for (const auto& v : values) all.push_back(bytes_of(v));
    return all;
  }

  inline static const std::vector<int> kWidth{5, 17, 9, 3};
  World& world_;
  Mlp<double> model_{kWidth};
  Mesh mesh_;
  std::vector<std::vector<double>> initial_;
  std::vector<ConstBuffer> values_;
  DataParallel data_;
  Optimizer adam_;
};

constexpr int kBefore = 7, kAfter = 8;

std::vector<double> losses_without_a_break(const Job& run) {
  std::vector<double> losses;
  on_threads(run.ranks, only("inproc"), [&](World& world) {
    Trainer trainer(world, run);
    for (int s = 0; s < kBefore + kAfter; ++s) {
      const double loss = trainer.step(s);
      if (world.rank() == 0 && s >= kBefore) losses.push_back(loss);
    }
  });
  return losses;
}

void save_after_some_steps(const Job& run, const std::string& folder) {
  on_threads(run.ranks, only("inproc"), [&](World& world) {
    Trainer trainer(world, run);
    for (int s = 0; s < kBefore; ++s) (void)trainer.step(s);
    trainer.save(folder, kBefore, run.saves);
  });
}

std::vector<double> resumed_losses(const Job& run, const std::string& folder) {
  std::vector<double> losses;
  on_threads(run.ranks, only("inproc"), [&](World& world) {
    Trainer trainer(world, run);
    const int from = trainer.load(folder);
    for (int s = from; s < kBefore + kAfter; ++s) {
      const double loss = trainer.step(s);
      if (world.rank() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, 1e-9) << what << ", step " << i;
}

const Job kRuns[] = {{"ddp", 3}, {"zero1", 2}, {"zero2", 5}, {"zero3", 4}, {"hsdp", 4}, {"ddp", 1}, {"zero3", 3}};

TEST(Training, GoesOnUnderAnyRowAndNumberOfRanks_AsIfThereHadBeenNoBreak) {
  const std::vector<double> expected = losses_without_a_break({"ddp", 1});
  for (const Job& from : kRuns) {
    ScratchFolder folder;
    save_after_some_steps(from, folder / "c");
    for (const Job& to : kRuns)
      expect_near(resumed_losses(to, folder / "c"), expected,
                  fmt::format("{} on {} to {} on {}", from.row, from.ranks, to.row, to.ranks));
  }
}

TEST(Training, GoesOnBitForBit_OnTheSameLayout) {
  for (const Job& row : kRuns) {
    Job run = row;
    run.determinism = Determinism::Reproducible;
    const std::vector<double> expected = losses_without_a_break(run);
    for (const Saves saves : {Saves::AtOnce, Saves::ByACheckpointer}) {
      run.saves = saves;
      ScratchFolder folder;
      save_after_some_steps(run, folder / "c");
      const std::vector<double> found = resumed_losses(run, folder / "c");
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(double)), 0)
          << run.row << " on " << run.ranks << ", way " << static_cast<int>(saves);
    }
  }
}

/// The negative control of both: moments and the number of steps matter.
TEST(Training, GoesElsewhere_WithoutTheOptimizersSteps) {
  ScratchFolder folder;
  const Job run{"zero3", 2};
  save_after_some_steps(run, folder / "c");
  const std::vector<double> expected = losses_without_a_break(run);
  on_threads(2, only("inproc"), [&](World& world) {
    test::Small other(world, "ddp", test::two_parameters());
    Optimizer sgd(other.data->memory(), SgdOptions{.rate = 1});
    require(parts_to_save(*other.data, sgd).size() == 2, "sgd without momentum has no state");
    Trainer trainer(world, run);
    (void)trainer.load(folder / "c");
    double farthest = 0;
    Trainer fresh(world, run);
    for (int s = kBefore; s < kBefore + kAfter; ++s) {
      farthest = std::max(farthest, std::abs(fresh.step(s) / expected[static_cast<std::size_t>(s - kBefore)] - 1));
      (void)trainer.step(s);
    }
    require(farthest > 1e-3, "a trainer that loaded nothing has the same losses");
  });
}

TEST(TrainingParts, HaveMastersOfSixteenBits_AndTheBoxesOfTensorParallelism) {
  on_threads(2, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
    const std::vector<std::uint16_t> weight(24, to_bfloat16(1.5F).bits);
    const std::vector<ConstBuffer> values{bytes_of(weight)};
    const Box columns{{0, 4}, {6, 8}};
    DataParallel data(mesh, {{.path = "w", .dtype = DType::BF16, .unit = "w", .shape = {6, 8}, .box = columns}}, values,
                      data_row("zero3", {"dp"}), [&](std::size_t bytes) { return world.allocate(bytes); });
    Optimizer adam(data.memory(), AdamOptions{});
    const auto parts = parts_to_save(data, adam);
    require(adam.steps() == 0, "before any update");
    std::vector<std::string> names;
    for (const CheckpointPart& part : parts) {
      names.push_back(part.item.to_string());
      require(part.extent.box == columns, "a part of the box");
    }
    const std::vector<std::string> all{"'w' (bf16 [6, 8])", "'optimizer.w.master' (f32 [6, 8])",
                                       "'optimizer.w.moment1' (f32 [6, 8])", "'optimizer.w.moment2' (f32 [6, 8])"};
    require(parts.empty() || names == all, fmt::format("{}", names.size()));
    if (world.rank() == 0) {
      float master = 0;
      std::memcpy(&master, parts[1].buffer.data, sizeof master);
      require(master == 1.5F, "the parameter's value");
    }
  });
}

}  // namespace
}  // namespace sinew::parallel
