#include "calibration.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <gpt/math/blas.hpp>
#include <gpt/model/model.hpp>
#include <gpt/train/stages.hpp>
#include <gpt/train/trainer.hpp>
#include <numeric>
#include <span>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

#include "plain_store.hpp"

namespace {

namespace sp = sinew::parallel;
using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& body) {
  const auto begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Norms and sums of residuals of one layer: what tensor-parallel ranks do not share, in one pass.
double unshared_of_layer(std::int64_t rows, std::int64_t width) {
  constexpr int kPasses = 4;  // over the rows: two norms and two sums
  std::vector<float> from(static_cast<std::size_t>(rows * width), 1), to(from);
  return seconds_of([&] {
    for (int pass = 0; pass < kPasses; ++pass)
      std::ranges::transform(from, to, to.begin(), [](float a, float b) { return 0.5F * a + b; });
  });
}

/// The stages of one place, alone.
class StageTimer {
 public:
  StageTimer(const gpt::Options& options, const gpt::Text& text, int ranks, int pp)
      : samples_(static_cast<int>(sp::samples_of_pass(ranks, options.job))),
        stages_(gpt::stages_of(options.shape, options.job, pp)),
        store_(options.shape, options.job.precision.parameter, options.job.precision.gradient, 1),
        blas_(gpt::make_blas(options.blas, options.blas_threads)),
        model_(options.shape, gpt::model_options(options.job, options.experts), *blas_, {}, stages_.parts),
        sequences_(text.sequences({1, 0, options.shape.context}, 0, samples_)) {
    const std::size_t bytes =
        gpt::Model::boundary_bytes(options.shape, {}, gpt::model_options(options.job, options.experts), samples_);
    for (std::vector<std::byte>* b : {&in_, &out_, &din_, &dout_}) b->resize(bytes);
    for (std::vector<std::byte>* b : {&in_, &dout_}) {
      auto* values = reinterpret_cast<float*>(b->data());
      for (std::size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = static_cast<float>(i % 17) * 0.1F - 0.8F;
    }
  }

  std::vector<Calibration::Stage> run() {
    std::vector<Calibration::Stage> all;
    for (std::size_t i = 0; i < stages_.parts.size(); ++i) all.push_back(stage(static_cast<int>(i)));
    return all;
  }

 private:
  Calibration::Stage stage(int own) {
    const gpt::StagePart& part = stages_.parts[static_cast<std::size_t>(own)];
    const sinew::ConstBuffer in(sinew::Buffer{in_.data(), part.embeds ? 0 : in_.size()}),
        dout(sinew::Buffer{dout_.data(), part.predicts ? 0 : dout_.size()});
    const sinew::Buffer out{out_.data(), part.predicts ? 0 : out_.size()},
        din{din_.data(), part.embeds ? 0 : din_.size()};
    Calibration::Stage s;
    s.forward = seconds_of([&] { model_.forward(store_, {own, 0}, sequences_, samples_, {}, in, out); });
    if (part.defers) {
      s.input_gradient = seconds_of([&] { model_.backward_input(store_, {own, 0}, 1, dout, din); });
      s.weight_gradient = seconds_of([&] { model_.backward_weights({own, 0}); });
    } else {
      s.backward = seconds_of([&] { model_.backward(store_, {own, 0}, 1, dout, din); });
    }
    return s;
  }

  int samples_;
  gpt::RankStages stages_;
  PlainStore store_;
  std::unique_ptr<gpt::Blas> blas_;
  gpt::Model model_;
  std::vector<std::uint8_t> sequences_;
  std::vector<std::byte> in_, out_, din_, dout_;
};

/// The optimizer's part of a step, on memory of its own.
class UpdateTimer {
 public:
  UpdateTimer(sinew::World& world, std::int64_t owned, std::int64_t whole)
      : memory_([&world](std::size_t bytes) { return world.allocate(bytes); }),
        values_(static_cast<std::size_t>(owned), 0.1F),
        gradients_(static_cast<std::size_t>(whole), 0.01F),
        adam_(memory_, sp::AdamOptions{}) {}

  double run() {
    if (values_.empty()) return 0;
    const std::size_t bytes = values_.size() * sizeof(float);
    const sp::OwnedPart part{0,
                             0,
                             static_cast<std::int64_t>(values_.size()),
                             sinew::DType::F32,
                             {reinterpret_cast<std::byte*>(values_.data()), bytes},
                             {reinterpret_cast<std::byte*>(gradients_.data()), bytes}};
    return seconds_of([&] {
      const std::span<const float> mine(gradients_.data(), values_.size());
      norm_ =
          std::transform_reduce(mine.begin(), mine.end(), 0.0, std::plus<>(), [](float g) { return double{g} * g; });
      adam_.update(std::span(&part, 1), 1);
      std::memset(gradients_.data(), 0, gradients_.size() * sizeof(float));
    });
  }

 private:
  sp::HeldMemory memory_;
  std::vector<float> values_, gradients_;
  sp::Optimizer adam_;
  volatile double norm_ = 0;
};

/// One rank per core at a time, host by host, the others wait.
void in_waves(sinew::World& world, const Sharing& sharing, const std::function<void()>& body) {
  const std::vector<int> here = world.cluster().ranks_on_host(world.rank());
  const int place = static_cast<int>(std::ranges::find(here, world.rank()) - here.begin());
  std::array<int, 1> waves{(sharing.ranks + sharing.cores - 1) / sharing.cores};
  world.communicator().all_reduce(waves, sinew::ReduceOp::Max).get();
  for (int wave = 0; wave < waves[0]; ++wave) {
    world.communicator().barrier().get();
    if (place / sharing.cores == wave) body();
  }
  world.communicator().barrier().get();
}

}  // namespace

Sharing sharing_of(sinew::World& world) {
  const auto& spot = world.cluster().ranks[static_cast<std::size_t>(world.rank())];
  return {static_cast<int>(world.cluster().ranks_on_host(world.rank()).size()), std::max(spot.usable_cores, 1)};
}

struct Calibrator::Parts {
  sinew::World& world;
  const gpt::Options& options;
  int pp;
  StageTimer stages;
  UpdateTimer update;
};

Calibrator::Calibrator(sinew::World& world, const gpt::Options& options, const gpt::Text& text, std::int64_t owned,
                       std::int64_t whole) {
  if (options.job.precision.parameter != sinew::DType::F32)
    throw sinew::Error(sinew::Code::InvalidArgument, "gpt_prediction: expected --dtype f32");
  const sp::DataStrategy strategy = sp::data_strategy(world.size(), options.job, gpt::engine_facts(options.shape));
  const int pp = strategy.shape.index(world.rank(), "pp");
  parts_ = std::unique_ptr<Parts>(
      new Parts{world, options, pp, StageTimer(options, text, world.size(), pp), UpdateTimer(world, owned, whole)});
}

Calibrator::~Calibrator() = default;

Calibration Calibrator::sample() {
  const sp::JobConfig& job = parts_->options.job;
  const gpt::Shape& shape = parts_->options.shape;
  Calibration found;
  double unshared = 0;
  in_waves(parts_->world, sharing_of(parts_->world), [&] {
    found.stages = parts_->stages.run();
    found.update = parts_->update.run();
    if (job.layout.tp > 1 && !job.sequence_parallel)
      unshared = unshared_of_layer(sp::samples_of_pass(parts_->world.size(), job) * shape.context, shape.width);
  });
  const std::vector<gpt::StagePart> parts = gpt::stages_of(shape, job, parts_->pp).parts;
  for (std::size_t s = 0; s < found.stages.size(); ++s) {
    const double alone = unshared * (parts[s].last_block - parts[s].first_block);
    const auto shared = [&](double time, double passes) {
      const double mine = std::min(alone * passes, time);
      return (mine + (time - mine) / job.layout.tp) / job.layout.cp;
    };
    Calibration::Stage& stage = found.stages[s];
    stage = {shared(stage.forward, 1), shared(stage.backward, 2), shared(stage.input_gradient, 2),
             shared(stage.weight_gradient, 0)};
  }
  return found;
}
