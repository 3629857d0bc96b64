#include "calibration.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <gpt/model/model.hpp>
#include <gpt/train/pass_data.hpp>
#include <gpt/train/plan.hpp>
#include <gpt/train/trainer.hpp>
#include <numeric>
#include <span>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

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

/// A layout in which this rank shares nothing but the pipeline.
sp::JobConfig alone(sp::JobConfig job) {
  job.layout = {.pp = job.layout.pp};
  job.zero = 0;
  job.replicas = 1;
  job.sequence_parallel = job.decomposed = false;
  return job;
}

/// The stages of one place, without any exchange.
class StageTimer {
 public:
  StageTimer(sinew::World& world, const gpt::Options& options, const gpt::Text& text, int pp)
      : job_(alone(options.job)),
        samples_(sp::samples_of_pass(world.size(), options.job)),
        group_(world.communicator().split(world.rank())),
        mesh_(group_, sp::Factorisation({{"dp", 1}})),
        blas_(gpt::blas_of(options)),
        routers_(options.shape.layers_with_experts(), options.shape.experts.count, options.shape.experts.bias_rate),
        parts_(options.shape, job_, options.experts, samples_, {&none_, &none_, &none_, &none_, {}, &none_}, *blas_,
               {.routers = &routers_}),
        stages_(gpt::stages_of(options.shape, job_, pp)),
        defers_(sp::stages(job_) > 1 && sp::has_late_weights(sp::schedule_of(job_))) {
    sp::ParameterList list({.dtype = job_.precision.parameter, .unit = "stages", .gradient = job_.precision.gradient});
    for (gpt::StagePart part : stages_) {
      part.tokens_are_elsewhere = false;
      modules_.push_back(parts_.stage(part));
      modules_.back()->declare(list);
    }
    const auto hold = [&](const sp::ParameterList::Family& family) {
      return std::make_unique<sp::DataParallel>(mesh_, family.parameters, family.initial(1),
                                                sp::data_row("ddp", {"dp"}),
                                                [&world](std::size_t bytes) { return world.allocate(bytes); });
    };
    data_ = hold(list.dense());
    if (!list.experts().parameters.empty()) experts_ = hold(list.experts());
    batch_.read(options.shape, parts_.places(), text.sequences({1, 0, options.shape.context}, 0, samples_), 0, 0);
  }

  std::vector<Calibration::Stage> run() {
    std::vector<Calibration::Stage> all;
    for (const sp::ModulePtr<float>& module : modules_) all.push_back(stage(*module));
    return all;
  }

 private:
  static std::vector<float> some_values(std::int64_t elements) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) * 0.1F - 0.8F;
    return values;
  }

  Calibration::Stage stage(sp::Module<float>& module) {
    sp::Pass<float> pass(*data_, experts_.get(), pool_, false);
    pass.batch = batch_.batch();
    sp::Kept<float> kept;
    const std::vector<float> x = some_values(module.in_elements()), dout = some_values(module.out_elements());
    std::vector<float> out(dout.size()), dx(x.size());
    Calibration::Stage s;
    s.forward = seconds_of([&] { module.forward(pass, x.data(), kept, out.data()); });
    if (defers_) {
      s.input_gradient = seconds_of([&] { module.input_gradient(pass, x.data(), kept, dout.data(), dx.data()); });
      s.weight_gradient = seconds_of([&] { module.weight_gradient(pass, x.data(), kept, dout.data()); });
    } else {
      s.backward = seconds_of([&] { module.backward(pass, x.data(), kept, dout.data(), dx.data()); });
    }
    return s;
  }

  sp::JobConfig job_;
  std::int64_t samples_;
  sinew::Communicator none_, group_;
  sp::Mesh mesh_;
  std::unique_ptr<sp::Blas> blas_;
  sp::RouterStates routers_;
  gpt::ModelParts<float> parts_;
  std::vector<gpt::StagePart> stages_;
  bool defers_;
  std::vector<sp::ModulePtr<float>> modules_;
  std::unique_ptr<sp::DataParallel> data_, experts_;
  sp::ArrayPool<float> pool_;
  gpt::PassData batch_;
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
      new Parts{world, options, pp, StageTimer(world, options, text, pp), UpdateTimer(world, owned, whole)});
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
  const std::vector<gpt::StagePart> parts = gpt::stages_of(shape, job, parts_->pp);
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
