#include "trainer.hpp"

#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data/gradient_norm.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/job/data_strategy.hpp>

#include "../parameters.hpp"
#include "stages.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

std::vector<sp::DataParameter> data_parameters(const Shape& shape, const sp::JobConfig& config,
                                               const sp::RankPlace& place) {
  std::vector<sp::DataParameter> all;
  for (const ParameterInfo& info : parameters_of(shape, config, place)) {
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
      infos = parameters_of(options.shape, options.job,
                            {strategy.shape.index(world.rank(), "tp"), 0, strategy.shape.index(world.rank(), "pp")});
    }
    initialise(infos[static_cast<std::size_t>(p)], options.job.seed, first, last, options.job.precision.parameter,
               into);
  };
}

/// What ranks must have in common beside the configuration of the job.
sp::EngineFacts engine_of(const Options& o, const Text& text) {
  sp::EngineFacts engine = engine_facts(o.shape);
  engine.identity = fmt::format(
      "{}\nsteps {}, rate {}, warmup {}, weight decay {}, clip {}, saved: {}, every {} steps\ntext of {} bytes, {:x}",
      to_string(o.shape), o.steps, o.rate, o.warmup, o.weight_decay, o.clip, !o.save.empty(), o.save_every,
      text.bytes(), text.hash());
  return engine;
}

std::string why_not_invariant(const Shape& shape) {
  if (shape.has_scans()) return "what a selective scan sums up goes by pieces of a sequence";
  return shape.sinks ? "gradients of sinks are sums over a rank's queries" : "";
}

/// What sums over ranks are to be but where each rank's part of them is exact, or in an order of its own, anyway.
sinew::CallOptions norm_options(const sp::JobConfig& config) {
  const bool is_invariant = config.determinism == sinew::Determinism::LayoutInvariant;
  return {.determinism = is_invariant ? config.determinism : sinew::Determinism::Fast};
}

std::unique_ptr<Blas> blas_of(const Options& options) {
  if (options.job.determinism == sinew::Determinism::LayoutInvariant) return std::make_unique<sp::InvariantBlas>();
  return make_blas(options.blas, options.blas_threads);
}

}  // namespace

ModelOptions model_options(const sp::JobConfig& config, int sample_ranks) {
  const bool is_invariant = config.determinism == sinew::Determinism::LayoutInvariant;
  return {config.recompute, config.precision, config.seed,
          is_invariant && sample_ranks > 0 ? config.global_batch / sample_ranks : 0};
}

sp::EngineFacts engine_facts(const Shape& shape) {
  return {.axes = {"dp", "tp", "cp", "pp"},
          .most_tp = shape.heads,
          .most_pp = shape.layers,
          .most_cp = shape.context,
          .sequence_parallel = true,
          .parameters = [shape](const sp::JobConfig& config,
                                const sp::RankPlace& place) { return data_parameters(shape, config, place); },
          .activation_bytes = [shape](const sp::JobConfig& config, std::int64_t samples,
                                      const sp::RankPlace& place) { return pass_bytes(shape, config, samples, place); },
          .outer_unit = parameters(shape).front().unit,
          .invariant = {.why_not = why_not_invariant(shape),
                        .most_tp = most_invariant_tp(shape),
                        .most_cp = most_invariant_cp(shape)}};
}

Trainer::Trainer(sinew::World& world, const Options& options, const Text& text)
    : options_(&options),
      text_(&text),
      job_(world, options.job, engine_of(options, text), initial_values(world, options)),
      infos_(parameters_of(options.shape, options.job, job_.place())),
      optimizer_(job_.data().memory(), sp::AdamOptions{.rate = options.rate, .weight_decay = options.weight_decay}),
      blas_(blas_of(options)),
      model_(options.shape, model_options(options.job, job_.sample_ranks()), *blas_,
             {&job_.tensor(), options.job.sequence_parallel, options.job.decomposed, &job_.head_sharers(), &job_.ring(),
              &job_.context(), options.job.determinism == sinew::Determinism::LayoutInvariant},
             stages_of(options.shape, options.job, job_.place().pp).parts),
      store_(job_.data()),
      spread_(infos_.size()) {
  const bool is_pipeline = options.job.layout.pp > 1;
  for (std::size_t p = 0; p < infos_.size(); ++p)
    spread_[p] = infos_[p].is_cut() ? is_pipeline ? "tp-pp" : "tp" : is_pipeline ? "pp" : "";
  if (sp::stages(options.job) > 1)
    pipelined_ =
        std::make_unique<Pipelined>(job_, options, stages_of(options.shape, options.job, job_.place().pp), model_,
                                    parameters(options.shape, part_of(options.job, job_.place()))[kTokens]);
}

sp::WeightedLoss Trainer::passes(const std::vector<std::uint8_t>& sequences, std::int64_t step,
                                 std::int64_t first_sample) {
  const auto length = static_cast<std::size_t>(options_->shape.context) + 1;
  const auto samples = static_cast<std::size_t>(job_.samples_of_pass());
  sp::WeightedLoss loss;
  const auto pass = [&](std::size_t number) {
    const auto mine = std::span(sequences).subspan(number * samples * length, samples * length);
    const sp::TokenLoss sum =
        model_.forward(store_, mine, static_cast<int>(samples),
                       {static_cast<std::uint64_t>(step), first_sample + static_cast<std::int64_t>(number * samples)});
    model_.backward(store_, 1);
    loss += {sum.sum, static_cast<double>(sum.tokens)};
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

sp::WeightedLoss Trainer::total_of(const sp::WeightedLoss& part) {
  sp::WeightedLoss loss = sp::total(job_.summing(), part);
  sp::ExactSum* exact = model_.exact_losses();
  if (exact == nullptr) return loss;
  for (sinew::Communicator* ranks : {&job_.pipeline(), &job_.summing()}) {
    if (ranks->size() > 1) ranks->all_reduce(std::span<std::int64_t>(exact->words())).get();
  }
  loss.sum = exact->value();
  return loss;
}

std::size_t Trainer::most_held() noexcept {
  std::size_t bytes = model_.held_bytes() + (pipelined_ ? pipelined_->held_bytes() : 0);
  for (const std::size_t of_purpose : job_.data().held().most) bytes += of_purpose;
  return bytes;
}

StepReport Trainer::step(std::int64_t number, const Watcher& watch) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  sp::DataParallel& data = job_.data();
  const std::int64_t mine = options_->job.global_batch / job_.sample_ranks(), first = job_.sample_index() * mine;
  const std::vector<std::uint8_t> sequences =
      text_->sequences({options_->job.seed, number, options_->shape.context}, first, mine);

  if (sp::ExactSum* exact = model_.exact_losses()) *exact = {};
  static_cast<void>(store_.waited());
  const double waited_before = pipelined_ ? pipelined_->runner().waited_s() : 0;
  sp::WeightedLoss part = pipelined_ ? pipelined_->step(sequences, number, first) : passes(sequences, number, first);
  const auto owned = store_.timed([&] { return data.finish_backward(); });
  if (job_.pipeline().size() > 1) part = sp::total(job_.pipeline(), part);  // the last stage's, for all
  const sp::WeightedLoss loss = store_.timed([&] { return total_of(part); });
  StepReport report{.step = number, .loss = loss.mean(), .rate = rate_at(*options_, number)};
  // Gradients are those of the sum; computing: all ranks have come already.
  report.norm = loss.scale() * sp::gradient_norm(data, job_.mesh(), owned, spread_, norm_options(options_->job));
  if (loss.weight == 0)
    throw sinew::Error(sinew::Code::InvalidArgument,
                       fmt::format("step {}: none of its bytes is predicted: each is followed by the beginning of a "
                                   "document; expected a text that is not all document ends ({})",
                                   number, options_->shape.document_end));
  if (!std::isfinite(report.loss) || !std::isfinite(report.norm))
    throw sinew::Error(sinew::Code::System,
                       fmt::format("step {}: loss {} and norm of the gradients {}: expected numbers; a lower --rate or "
                                   "another --dtype may do",
                                   number, report.loss, report.norm));
  optimizer_.set_rate(report.rate);
  if (watch) watch(owned, loss.scale());
  const double clip = options_->clip > 0 ? sp::clip_scale(report.norm, options_->clip) : 1;
  optimizer_.update(owned, loss.scale() * clip);
  store_.timed([&] { data.updated(); });

  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  report.exposed_s = std::chrono::duration<double>(store_.waited()).count();
  if (pipelined_) report.exposed_s += pipelined_->runner().waited_s() - waited_before;
  report.tokens_per_s = loss.weight / report.seconds;
  return report;
}

}  // namespace gpt
