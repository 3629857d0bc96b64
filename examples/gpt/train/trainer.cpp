#include "trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/mesh/layout.hpp>

#include "../parameters.hpp"
#include "stages.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

std::string spread_of(const ParameterInfo& info) {
  if (info.of_experts) return info.is_cut_in_experts() ? "etp-ep-pp" : "ep-pp";
  return info.is_cut() ? "tp-pp" : "pp";
}

std::vector<sp::DataParameter> data_parameters(const Shape& shape, const sp::JobConfig& config,
                                               const sp::RankPlace& place, bool of_experts) {
  std::vector<sp::DataParameter> all;
  for (const ParameterInfo& info : parameters_of(shape, config, place, of_experts)) {
    all.push_back({.path = info.path,
                   .dtype = config.precision.parameter,
                   .unit = info.unit,
                   .uses = info.uses,
                   .gradient = config.precision.gradient,
                   .shape = info.shape,
                   .box = info.box,
                   .spread = spread_of(info)});
  }
  return all;
}

/// Asked for when the job has found its configuration to be sound.
sp::InitialValues initial_values(const sinew::World& world, const Options& options, bool of_experts) {
  return [&world, &options, of_experts, infos = std::vector<ParameterInfo>{}](const sp::InitialPart& part) mutable {
    if (infos.empty()) {
      const sp::Layout layout(world.size(), options.job.layout);
      const auto dense = [&](const char* axis) { return layout.dense().index(world.rank(), axis); };
      const auto expert = [&](const char* axis) { return layout.expert().index(world.rank(), axis); };
      infos = parameters_of(options.shape, options.job, {dense("tp"), 0, dense("pp"), expert("ep"), expert("etp")},
                            of_experts);
    }
    initialise(infos[static_cast<std::size_t>(part.number)], options.job.seed, part.first, part.last,
               part.parameter.dtype, part.into);
  };
}

std::string scale_text(const std::optional<sp::LossScalerOptions>& scale) {
  if (!scale) return "none";
  return scale->is_fixed ? fmt::format("{}", scale->initial) : fmt::format("dynamic from {}", scale->initial);
}

/// What ranks must have in common beside the configuration of the job.
sp::EngineFacts engine_of(const Options& o, const Text& text) {
  sp::EngineFacts engine = engine_facts(o.shape);
  engine.identity = fmt::format(
      "{}\nexperts by {}, {} chunks\nsteps {}, rate {}, warmup {}, weight decay {}, clip {}, loss scale {}, overflows "
      "at {}, saved: {}, every {} steps, resumed: {}\ntext of {} bytes, {:x}",
      to_string(o.shape), name_of(o.experts.kind), o.experts.chunks, o.steps, o.rate, o.warmup, o.weight_decay, o.clip,
      scale_text(o.loss_scale), fmt::join(o.overflow_at, ","), !o.save.empty(), o.save_every,
      o.resume.empty()     ? "no"
      : o.resume == o.save ? "from where it is saved"
                           : "from elsewhere",
      text.bytes(), text.hash());
  return engine;
}

std::string why_not_invariant(const Shape& shape) {
  if (shape.has_experts()) return "the sum over an expert's tokens goes by ranks that they come from";
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

ModelOptions model_options(const sp::JobConfig& config, const ExpertsWay& experts, int sample_ranks) {
  const bool is_invariant = config.determinism == sinew::Determinism::LayoutInvariant;
  const std::int64_t samples = is_invariant && sample_ranks > 0 ? config.global_batch / sample_ranks : 0;
  return {config.recompute, config.precision, config.seed, samples, experts, config.determinism};
}

sp::EngineFacts engine_facts(const Shape& shape) {
  using Config = sp::JobConfig;
  using Place = sp::RankPlace;
  sp::EngineFacts engine{
      .axes = {"dp", "tp", "cp", "pp"},
      .most_tp = shape.heads,
      .most_pp = shape.layers,
      .most_cp = shape.context,
      .sequence_parallel = true,
      .parameters = [shape](const Config& c, const Place& place) { return data_parameters(shape, c, place, false); },
      .activation_bytes = [shape](const Config& c, std::int64_t samples,
                                  const Place& place) { return pass_bytes(shape, c, samples, place); },
      .outer_unit = parameters(shape).front().unit,
      .invariant = {.why_not = why_not_invariant(shape),
                    .most_tp = most_invariant_tp(shape),
                    .most_cp = most_invariant_cp(shape)}};
  if (!shape.has_experts()) return engine;
  engine.axes.insert(engine.axes.end(), {"ep", "etp"});
  engine.experts = shape.experts.count;
  engine.most_etp = shape.inner();
  engine.expert_parameters = [shape](const Config& c, const Place& place) {
    return data_parameters(shape, c, place, true);
  };
  return engine;
}

namespace {

Trainer::Held held_of(sp::DataParallel& data, const Options& options, const sp::RankPlace& place, bool of_experts) {
  std::vector<ParameterInfo> infos = parameters_of(options.shape, options.job, place, of_experts);
  return {&data, std::move(infos),
          sp::Optimizer(data.memory(), sp::AdamOptions{.rate = options.rate, .weight_decay = options.weight_decay})};
}

}  // namespace

ModelRanks Trainer::ranks() {
  ModelRanks all{&job_.tensor(),
                 options_->job.sequence_parallel,
                 options_->job.decomposed,
                 &job_.head_sharers(),
                 &job_.ring(),
                 &job_.context(),
                 {},
                 options_->job.determinism == sinew::Determinism::LayoutInvariant};
  all.experts.routers = &routers_;
  if (!job_.has_experts()) return all;
  all.experts.experts = {&job_.expert_ranks(), &job_.expert_tensor(), job_.expert_hosts()};
  all.experts.sequences = &job_.sequence_ranks();
  return all;
}

Trainer::Trainer(sinew::World& world, const Options& options, const Text& text)
    : options_(&options),
      text_(&text),
      job_(world, options.job, engine_of(options, text), initial_values(world, options, false),
           initial_values(world, options, true)),
      all_(&world.communicator()),
      routers_(options.shape),
      blas_(blas_of(options)),
      model_(options.shape, model_options(options.job, options.experts, job_.sample_ranks()), *blas_, ranks(),
             stages_of(options.shape, options.job, job_.place().pp).parts),
      store_(job_, options.shape,
             ParameterHomes(job_, stages_of(options.shape, options.job, job_.place().pp).parameters,
                            parameters(options.shape, part_of(options.job, job_.place())))),
      steps_done_(options.resume.empty() ? 0 : -1) {
  if (options.loss_scale) scaler_.emplace(*options.loss_scale);
  held_.push_back(held_of(job_.data(), options, job_.place(), false));
  if (job_.has_experts()) held_.push_back(held_of(job_.experts(), options, job_.place(), true));
  if (sp::stages(options.job) > 1)
    pipelined_ = std::make_unique<Pipelined>(job_, options, stages_of(options.shape, options.job, job_.place().pp),
                                             model_, parameters(options.shape, part_of(options.job, job_.place())));
}

std::vector<std::vector<sp::OwnedPart>> Trainer::finish_backward() {
  std::vector<std::vector<sp::OwnedPart>> owned;
  for (Held& held : held_) owned.push_back(held.data->finish_backward());
  return owned;
}

sp::WeightedLoss Trainer::passes(const std::vector<std::uint8_t>& sequences, std::int64_t step,
                                 std::int64_t first_sample, const GradientScale& gradients) {
  const auto length = static_cast<std::size_t>(options_->shape.context) + 1;
  const auto samples = static_cast<std::size_t>(job_.samples_of_pass());
  sp::WeightedLoss loss;
  const auto pass = [&](std::size_t number) {
    const auto mine = std::span(sequences).subspan(number * samples * length, samples * length);
    const sp::TokenLoss sum =
        model_.forward(store_, mine, static_cast<int>(samples),
                       {static_cast<std::uint64_t>(step), first_sample + static_cast<std::int64_t>(number * samples)});
    model_.backward(store_, gradients.scale);
    loss += {sum.sum, static_cast<double>(sum.tokens)};
  };
  const auto last = static_cast<std::size_t>(options_->job.micro_batches) - 1;
  for (std::size_t number = 0; number < last; ++number) {
    std::vector<sp::DataParallel::Scope> scopes;
    for (Held& held : held_) scopes.push_back(held.data->no_sync());
    pass(number);
    static_cast<void>(finish_backward());
  }
  if (gradients.overflows) store_.overflow_next();
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

void Trainer::restore_steps(std::int64_t done, std::int64_t of_optimizer,
                            const std::optional<sp::LossScaleState>& scaling) {
  for (Held& held : held_) held.optimizer.restore_steps(of_optimizer);
  if (scaler_ && scaling) scaler_->restore(*scaling);
  steps_done_ = done;
}

std::optional<sp::LossScaleState> Trainer::scaling() const {
  return scaler_ ? std::optional(scaler_->state()) : std::nullopt;
}

std::optional<double> Trainer::unscale(std::int64_t step, double norm) {
  if (!scaler_) return 1;
  const bool is_hopeless = !scaler_->options().is_fixed && scaler_->is_lowest();
  const double scale = scaler_->scale();
  const std::optional<double> factor = scaler_->unscale(norm);
  if (!factor && is_hopeless)
    throw sinew::Error(sinew::Code::System,
                       fmt::format("step {}: the norm of the gradients is {} with the least loss scale, {}: expected a "
                                   "number; a lower --rate or another --dtype may do",
                                   step, norm, scale));
  return factor;
}

std::size_t Trainer::most_held() noexcept {
  std::size_t bytes = model_.held_bytes() + (pipelined_ ? pipelined_->held_bytes() : 0);
  for (const Held& held : held_) {
    for (const std::size_t of_purpose : held.data->held().most) bytes += of_purpose;
  }
  return bytes;
}

StepReport Trainer::step(std::int64_t number, const Watcher& watch) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const std::int64_t mine = options_->job.global_batch / job_.sample_ranks(), first = job_.sample_index() * mine;
  const std::vector<std::uint8_t> sequences =
      text_->sequences({options_->job.seed, number, options_->shape.context}, first, mine);

  if (sp::ExactSum* exact = model_.exact_losses()) *exact = {};
  static_cast<void>(store_.waited());
  const double waited_before = pipelined_ ? pipelined_->runner().waited_s() : 0;
  const bool is_last_rank = all_->rank() + 1 == all_->size();
  const GradientScale gradients{.scale = scaler_ ? scaler_->scale() : 1,
                                .overflows = is_last_rank && std::ranges::binary_search(options_->overflow_at, number)};
  sp::WeightedLoss part =
      pipelined_ ? pipelined_->step(sequences, number, first, gradients) : passes(sequences, number, first, gradients);
  const auto owned = store_.timed([&] { return finish_backward(); });
  if (job_.pipeline().size() > 1) part = sp::total(job_.pipeline(), part);  // the last stage's, for all
  const sp::WeightedLoss loss = store_.timed([&] { return total_of(part); });
  StepReport report{.step = number, .loss = loss.mean(), .rate = rate_at(*options_, number)};
  // Gradients are those of the scaled sum; computing: all ranks have come already.
  double squares = 0;
  for (std::size_t i = 0; i < held_.size(); ++i)
    squares += std::pow(sp::gradient_norm(*held_[i].data, owned[i], norm_options(options_->job)), 2);
  const double norm = std::sqrt(squares);
  const std::optional<double> unscale = this->unscale(number, norm);
  report.routers = routers_.end_step(*all_, !unscale);
  if (loss.weight == 0)
    throw sinew::Error(
        sinew::Code::InvalidArgument,
        fmt::format("step {}: there is nothing to learn: all {} bytes of its batch (--batch {} of --context {}) from "
                    "'{}' are {}, which ends a document (--document-end), and the byte after the end of a document is "
                    "not predicted; expected a text with other bytes, too, or another --document-end (-1: none)",
                    number, options_->job.global_batch * options_->shape.context, options_->job.global_batch,
                    options_->shape.context, text_->name(), options_->shape.document_end));
  report.norm = unscale ? loss.scale() * (norm * *unscale) : std::numeric_limits<double>::infinity();
  report.is_skipped = !unscale;
  report.loss_scale = gradients.scale;
  report.scaling = scaling();
  if (!std::isfinite(report.loss) || (unscale && !std::isfinite(report.norm)))
    throw sinew::Error(sinew::Code::System,
                       fmt::format("step {}: loss {} and norm of the gradients {}: expected numbers; a lower --rate or "
                                   "another --dtype may do",
                                   number, report.loss, report.norm));
  const double clip = options_->clip > 0 ? sp::clip_scale(report.norm, options_->clip) : 1;
  for (std::size_t i = 0; unscale && i < held_.size(); ++i) {
    Held& held = held_[i];
    const double mean = loss.scale() * *unscale;
    if (watch) watch(held.infos, owned[i], mean);
    held.optimizer.set_rate(report.rate);
    held.optimizer.update(owned[i], mean * clip);
  }
  steps_done_ = number + 1;
  store_.timed([&] {
    for (Held& held : held_) {
      if (unscale) {
        held.data->updated();
      } else {
        held.data->abandon_step();
      }
    }
  });
  for (Held& held : held_) held.data->scale_feedback(scaler_ ? scaler_->change() : 1);

  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (all_->size() > 1) report.exposed_s = std::chrono::duration<double>(store_.waited()).count();
  if (pipelined_) report.exposed_s += pipelined_->runner().waited_s() - waited_before;
  report.tokens_per_s = loss.weight / report.seconds;
  return report;
}

}  // namespace gpt
