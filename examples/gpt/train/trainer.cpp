#include "trainer.hpp"

#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data/gradient_norm.hpp>
#include <sinew/parallel/data/weighted_loss.hpp>
#include <sinew/parallel/job/data_strategy.hpp>

#include "../parameters.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

Part part_of(const sp::JobConfig& config, int tp_index) {
  return {tp_index, config.layout.tp, config.sequence_parallel};
}

std::vector<sp::DataParameter> data_parameters(const Shape& shape, const sp::JobConfig& config, int tp_index) {
  std::vector<sp::DataParameter> all;
  for (const ParameterInfo& info : parameters(shape, part_of(config, tp_index))) {
    all.push_back({.path = info.path,
                   .dtype = config.precision.parameter,
                   .elements = info.elements(),
                   .unit = info.unit,
                   .uses = info.uses,
                   .gradient = config.precision.gradient});
  }
  return all;
}

/// Asked for when the job has found its configuration to be sound.
sp::InitialValues initial_values(const sinew::World& world, const Options& options) {
  return [&world, &options, infos = std::vector<ParameterInfo>{}](std::int32_t p, std::int64_t first, std::int64_t last,
                                                                  sinew::Buffer into) mutable {
    if (infos.empty()) {
      const sp::DataStrategy strategy = sp::data_strategy(world.size(), options.job, engine_facts(options.shape));
      infos = parameters(options.shape, part_of(options.job, strategy.shape.index(world.rank(), "tp")));
    }
    initialise(infos[static_cast<std::size_t>(p)], options.job.seed, first, last, options.job.precision.parameter,
               into);
  };
}

}  // namespace

sp::EngineFacts engine_facts(const Shape& shape) {
  return {.axes = {"dp", "tp"},
          .most_tp = shape.heads,
          .sequence_parallel = true,
          .parameters = [shape](const sp::JobConfig& config,
                                int tp_index) { return data_parameters(shape, config, tp_index); },
          .activation_bytes =
              [shape](const sp::JobConfig& config, std::int64_t samples, int tp_index) {
                return Model::activation_bytes(shape, part_of(config, tp_index), config.recompute, config.precision,
                                               static_cast<int>(samples));
              },
          .outer_unit = parameters(shape).front().unit};
}

Trainer::Trainer(sinew::World& world, const Options& options, const Text& text)
    : options_(&options),
      text_(&text),
      job_(world, options.job, engine_facts(options.shape), initial_values(world, options)),
      infos_(parameters(options.shape, part_of(options.job, job_.mesh().index("tp")))),
      optimizer_(job_.data().memory(), sp::AdamOptions{.rate = options.rate, .weight_decay = options.weight_decay}),
      blas_(make_blas(options.blas, options.blas_threads)),
      model_(options.shape, options.job.recompute, options.job.precision, *blas_, &job_.tensor(),
             options.job.sequence_parallel),
      store_(job_.data()),
      spread_(infos_.size()) {
  for (std::size_t p = 0; p < infos_.size(); ++p) spread_[p] = infos_[p].is_cut() ? "tp" : "";
}

double Trainer::passes(std::span<const std::uint8_t> sequences) {
  const auto length = static_cast<std::size_t>(options_->shape.context) + 1;
  const auto samples = static_cast<std::size_t>(job_.samples_of_pass());
  const double scale =
      1 / (static_cast<double>(options_->job.global_batch) * static_cast<double>(options_->shape.context));
  double loss = 0;
  const auto pass = [&](std::size_t number) {
    const auto mine = sequences.subspan(number * samples * length, samples * length);
    loss += model_.forward(store_, mine, static_cast<int>(samples));
    model_.backward(store_, scale);
  };
  const auto last = static_cast<std::size_t>(options_->job.micro_batches) - 1;
  for (std::size_t number = 0; number < last; ++number) {
    const auto scope = job_.data().no_sync();
    pass(number);
    static_cast<void>(job_.data().finish_backward());
  }
  pass(last);
  return loss;
}

std::size_t Trainer::most_held() noexcept {
  std::size_t bytes = model_.held_bytes();
  for (const std::size_t of_purpose : job_.data().held().most) bytes += of_purpose;
  return bytes;
}

StepReport Trainer::step(std::int64_t number) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  sp::DataParallel& data = job_.data();
  const std::int64_t mine = options_->job.global_batch / job_.sample_ranks();
  const std::vector<std::uint8_t> sequences =
      text_->sequences({options_->job.seed, number, options_->shape.context}, job_.sample_index() * mine, mine);

  static_cast<void>(store_.waited());
  const double sum = passes(sequences);
  const auto owned = store_.timed([&] { return data.finish_backward(); });
  const auto tokens = static_cast<double>(mine * options_->shape.context);
  const sp::WeightedLoss loss = store_.timed([&] { return sp::total(job_.summing(), {sum, tokens}); });
  StepReport report{.step = number, .loss = loss.mean(), .rate = rate_at(*options_, number)};
  report.norm = sp::gradient_norm(data, job_.mesh(), owned, spread_);  // computing: all ranks have come already
  if (!std::isfinite(report.loss) || !std::isfinite(report.norm))
    throw sinew::Error(sinew::Code::System,
                       fmt::format("step {}: loss {} and norm of the gradients {}: expected numbers; a lower --rate or "
                                   "another --dtype may do",
                                   number, report.loss, report.norm));
  optimizer_.set_rate(report.rate);
  optimizer_.update(owned, options_->clip > 0 ? sp::clip_scale(report.norm, options_->clip) : 1);
  store_.timed([&] { data.updated(); });

  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  report.exposed_s = std::chrono::duration<double>(store_.waited()).count();
  report.tokens_per_s = loss.weight / report.seconds;
  return report;
}

}  // namespace gpt
