#include "trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/cublas.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/mesh/layout.hpp>
#include <sinew/parallel/optim/learning_rate.hpp>

#include "plan.hpp"

namespace gpt {
namespace {

/// It is called when the job has found its configuration to be sound.
sp::InitialValues initial_values(const sinew::World& world, const Options& options, bool of_experts) {
  return [&world, &options, of_experts, values = sp::InitialValues{}](const sp::InitialPart& part) mutable {
    if (!values) {
      const sp::Layout layout(world.size(), options.job.layout);
      const auto dense = [&](const char* axis) { return layout.dense().index(world.rank(), axis); };
      const auto expert = [&](const char* axis) { return layout.expert().index(world.rank(), axis); };
      const sp::ParameterList list =
          parameters_of(options.shape, options.job, {dense("tp"), 0, dense("pp"), expert("ep"), expert("etp")});
      values = (of_experts ? list.experts() : list.dense()).initial(options.job.seed);
    }
    values(part);
  };
}

std::string scale_text(const std::optional<sp::LossScalerOptions>& scale) {
  if (!scale) return "none";
  return scale->is_fixed ? fmt::format("{}", scale->initial) : fmt::format("dynamic from {}", scale->initial);
}

/// The engine's facts, and whatever ranks must have in common beside the configuration of the job.
sp::EngineFacts engine_of(const Options& o, const Text& text, const sp::ComputeDevice& device) {
  sp::EngineFacts engine = engine_facts(o.shape);
  engine.device = device;
  engine.identity = fmt::format(
      "{}\nexperts by {}, {} chunks\nsteps {}, rate {}, warmup {}, weight decay {}, clip {}, loss scale {}, overflows "
      "at {}, saved: {}, every {} steps, buddy copies: every {} steps, resumed: {}\ntext of {} bytes, {:x}",
      to_string(o.shape), name_of(o.experts.kind), o.experts.chunks, o.steps, o.rate, o.warmup, o.weight_decay, o.clip,
      scale_text(o.loss_scale), fmt::join(o.overflow_at, ","), !o.save.empty(), o.save_every, o.buddy_copies,
      o.resume.empty()     ? "no"
      : o.resume == o.save ? "from where it is saved"
                           : "from elsewhere",
      text.bytes(), text.hash());
  return engine;
}

/// Options for the sums of norms over ranks.
sinew::CallOptions norm_options(const sp::JobConfig& config) {
  const bool is_invariant = config.determinism == sinew::Determinism::LayoutInvariant;
  return {.determinism = is_invariant ? config.determinism : sinew::Determinism::Fast};
}

Trainer::Held held_of(sp::DataParallel& data, const Options& options) {
  return {&data,
          sp::Optimizer(data.memory(), sp::AdamOptions{.rate = options.rate, .weight_decay = options.weight_decay})};
}

}  // namespace

std::unique_ptr<sp::Blas> blas_of(const Options& options) {
  if (options.job.determinism == sinew::Determinism::LayoutInvariant) return std::make_unique<sp::InvariantBlas>();
  if (options.blas == "cublas") return sp::make_cublas();
  return std::make_unique<sp::HostBlas>(sp::HostBlasOptions{.threads = options.blas_threads});
}

ModelPlace::ModelPlace(const sinew::World& world, const Options& options) {
  if (options.device != "host") {
    const std::vector<int> here = world.cluster().ranks_on_host(world.rank());
    opened_ = std::make_unique<sp::OpenedDevice>(
        options.device, static_cast<int>(std::ranges::find(here, world.rank()) - here.begin()));
    blas_ = sp::make_cublas(opened_->device(), {.tf32 = options.tf32});
  } else {
    blas_ = blas_of(options);
  }
}

Trainer::Trainer(sinew::World& world, const Options& options, const Text& text, ModelPlace place)
    : options_(&options),
      text_(&text),
      place_(std::move(place)),
      job_(world, options.job, engine_of(options, text, place_.device()), initial_values(world, options, false),
           initial_values(world, options, true)),
      all_(&world.communicator()),
      routers_(options.shape.layers_with_experts(), options.shape.experts.count, options.shape.experts.bias_rate),
      engine_(make_engine(job_, options, routers_, place_.blas())),
      steps_done_(options.resume.empty() ? 0 : -1) {
  if (options.loss_scale) scaler_.emplace(*options.loss_scale);
  held_.push_back(held_of(job_.data(), options));
  if (job_.has_experts()) held_.push_back(held_of(job_.experts(), options));
}

std::vector<std::vector<sp::OwnedPart>> Trainer::finish_backward() {
  std::vector<std::vector<sp::OwnedPart>> owned;
  for (Held& held : held_) owned.push_back(held.data->finish_backward());
  return owned;
}

sp::WeightedLoss Trainer::total_of(const sp::WeightedLoss& part) {
  sp::WeightedLoss loss = sp::total(job_.summing(), part);
  sp::ExactSum* exact = engine_->exact_losses();
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
  std::size_t bytes = engine_->held_bytes();
  for (const Held& held : held_) {
    for (const std::size_t of_purpose : held.data->held().most) bytes += of_purpose;
  }
  return bytes;
}

StepReport Trainer::step(std::int64_t number, const Watcher& watch) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const std::int64_t mine = options_->job.global_batch / job_.sample_ranks(), first = job_.sample_index() * mine;
  const StepSamples samples{text_->sequences({options_->job.seed, number, options_->shape.context}, first, mine),
                            number, first};
  static_cast<void>(engine_->take_waited_s());
  double waited = 0;  // seconds, beside those of the engine
  const auto timed = [&](const auto& call) {
    const auto before = Clock::now();
    call();
    waited += std::chrono::duration<double>(Clock::now() - before).count();
  };
  const bool is_last_rank = all_->rank() + 1 == all_->size();
  const GradientScale gradients{.scale = scaler_ ? scaler_->scale() : 1,
                                .overflows = is_last_rank && std::ranges::binary_search(options_->overflow_at, number)};
  sp::WeightedLoss part = engine_->step(samples, gradients), loss;
  std::vector<std::vector<sp::OwnedPart>> owned;
  timed([&] { owned = finish_backward(); });
  if (job_.pipeline().size() > 1) part = sp::total(job_.pipeline(), part);  // the last stage's, for all
  timed([&] { loss = total_of(part); });
  StepReport report{.step = number,
                    .loss = loss.mean(),
                    .rate = sp::CosineRate{options_->rate, options_->warmup, options_->steps}.at(number)};
  // Gradients are those of the scaled sum; computing: all ranks have come already.
  double squares = 0;
  for (std::size_t i = 0; i < held_.size(); ++i)
    squares += std::pow(sp::gradient_norm(*held_[i].data, owned[i], norm_options(options_->job)), 2);
  const double norm = std::sqrt(squares);
  const std::optional<double> unscale = this->unscale(number, norm);
  report.routers = routers_.end_step(*all_, !unscale);
  report.worst_block = options_->shape.block_with_experts(report.routers.worst_layer);
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
    if (watch) watch(*held.data, owned[i], mean);
    held.optimizer.set_rate(report.rate);
    held.optimizer.update(owned[i], mean * clip);
  }
  steps_done_ = number + 1;
  timed([&] {
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
  if (all_->size() > 1) report.exposed_s = waited + engine_->take_waited_s();
  report.tokens_per_s = loss.weight / report.seconds;
  return report;
}

}  // namespace gpt
