#include "calibration.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
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

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

constexpr int kRepeats = 5;

/// A norm and a sum of residuals, forward and backward, of all rows: what ranks do not share of a layer.
double unshared_of_layer(std::int64_t rows, std::int64_t width) {
  constexpr int kPasses = 12;  // over the rows: two norms and two sums, each read twice and written once
  std::vector<float> from(static_cast<std::size_t>(rows * width), 1), to(from);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    times.push_back(seconds_of([&] {
      for (int pass = 0; pass < kPasses; ++pass)
        std::ranges::transform(from, to, to.begin(), [](float a, float b) { return 0.5F * a + b; });
    }));
  }
  return median(times) / 3;  // of three passes, forward and two backward, one each
}

/// The stages of one place, alone.
class StageTimer {
 public:
  StageTimer(const gpt::Options& options, const gpt::Text& text, int ranks, int pp)
      : options_(options),
        samples_(static_cast<int>(sp::samples_of_pass(ranks, options.job))),
        stages_(gpt::stages_of(options.shape, options.job, pp)),
        store_(options.shape, options.job.precision.parameter, options.job.precision.gradient, 1),
        blas_(gpt::make_blas(options.blas, options.blas_threads)),
        model_(options.shape, gpt::model_options(options.job), *blas_, {}, stages_.parts),
        sequences_(text.sequences({1, 0, options.shape.context}, 0, samples_)) {
    const std::size_t bytes = gpt::Model::boundary_bytes(options.shape, {}, gpt::model_options(options.job), samples_);
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
    std::vector<Calibration::Stage> all;
    for (int i = 0; i <= kRepeats; ++i) {
      Calibration::Stage s;
      s.forward = seconds_of([&] { model_.forward(store_, {own, 0}, sequences_, samples_, {}, in, out); });
      if (part.defers) {
        s.input_gradient = seconds_of([&] { model_.backward_input(store_, {own, 0}, 1, dout, din); });
        s.weight_gradient = seconds_of([&] { model_.backward_weights({own, 0}); });
      } else {
        s.backward = seconds_of([&] { model_.backward(store_, {own, 0}, 1, dout, din); });
      }
      if (i > 0) all.push_back(s);  // the first one meets cold caches and pages
    }
    std::ranges::sort(all, {}, &Calibration::Stage::total);
    return all[all.size() / 2];
  }

  const gpt::Options& options_;
  int samples_;
  gpt::RankStages stages_;
  PlainStore store_;
  std::unique_ptr<gpt::Blas> blas_;
  gpt::Model model_;
  std::vector<std::uint8_t> sequences_;
  std::vector<std::byte> in_, out_, din_, dout_;
};

double time_of_update(sinew::World& world, std::int64_t owned, std::int64_t whole) {
  if (owned == 0) return 0;
  sp::HeldMemory memory([&world](std::size_t bytes) { return world.allocate(bytes); });
  std::vector<float> values(static_cast<std::size_t>(owned), 0.1F), gradients(static_cast<std::size_t>(whole), 0.01F);
  const sp::OwnedPart part{0,
                           0,
                           owned,
                           sinew::DType::F32,
                           {reinterpret_cast<std::byte*>(values.data()), values.size() * 4},
                           {reinterpret_cast<std::byte*>(gradients.data()), values.size() * 4}};
  sp::Optimizer adam(memory, sp::AdamOptions{});
  std::vector<double> times;
  volatile double norm = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    const double t = seconds_of([&] {
      const std::span<const float> mine(gradients.data(), values.size());
      norm = std::transform_reduce(mine.begin(), mine.end(), 0.0, std::plus<>(), [](float g) { return double{g} * g; });
      adam.update(std::span(&part, 1), 1);
      std::memset(gradients.data(), 0, gradients.size() * sizeof(float));
    });
    if (i > 0) times.push_back(t);
  }
  return median(times);
}

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

Calibration calibrate(sinew::World& world, const gpt::Options& options, const gpt::Text& text, std::int64_t owned,
                      std::int64_t whole) {
  const sp::JobConfig& job = options.job;
  if (job.precision.parameter != sinew::DType::F32)
    throw sinew::Error(sinew::Code::InvalidArgument, "gpt_prediction: expected --dtype f32");
  const sp::DataStrategy strategy = sp::data_strategy(world.size(), job, gpt::engine_facts(options.shape));
  const int pp = strategy.shape.index(world.rank(), "pp");
  Calibration found;
  double unshared = 0;
  in_waves(world, sharing_of(world), [&] {
    found.stages = StageTimer(options, text, world.size(), pp).run();
    found.update = time_of_update(world, owned, whole);
    if (job.layout.tp > 1 && !job.sequence_parallel)
      unshared = unshared_of_layer(sp::samples_of_pass(world.size(), job) * options.shape.context, options.shape.width);
  });
  const std::vector<gpt::StagePart> parts = gpt::stages_of(options.shape, job, pp).parts;
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
