#include "training.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/job/surviving_job.hpp>
#include <sinew/tools/common/output_file.hpp>
#include <sinew/tools/draw/curve.hpp>

#include "plan.hpp"

namespace gpt {
namespace {

int plan(const sinew::World& world, const Options& options) {
  const int ranks = options.plan_ranks > 0 ? options.plan_ranks : world.size();
  const sp::EngineFacts engine = engine_facts(options.shape);
  sp::require_no_violations(ranks, options.job, engine);
  say(world, sp::describe(ranks, options.job, engine) + "\n\n" + sp::row_table(ranks, options.job, engine));
  return 0;
}

void require_elastic(const sinew::World& world, const Options& options) {
  if (!options.save.empty() || options.buddy_copies > 0 || sp::is_held_by_each(options.job)) return;
  throw sinew::Error(sinew::Code::InvalidArgument,
                     fmt::format("--elastic: of {} ranks by {} each holds a part, which can be lost with it; expected "
                                 "--save DIR or --buddy-copies STEPS",
                                 world.size(), sp::row_name(options.job)));
}

/// Every step where somebody watches or there are few, else some forty of them, the last one always.
bool is_shown(const Options& options, std::int64_t step) {
  const std::int64_t every = isatty(STDOUT_FILENO) != 0 ? 1 : std::max<std::int64_t>(options.steps / 40, 1);
  return step % every == 0 || step + 1 == options.steps;
}

}  // namespace

void say(const sinew::World& world, const std::string& text) {
  if (world.rank() == 0) fmt::print("{}\n", text);
  std::fflush(stdout);
}

Training::Training(sinew::World& world, Options options, const Text& text, const sinew::StopRequest* stop)
    : world_(world),
      options_(std::move(options)),
      trainer_(world, options_, text),
      checkpoints_(world, options_, trainer_),
      stop_(stop) {
  say(world_, sp::describe(world_.size(), options_.job, engine_facts(options_.shape)));
  if (options_.explain) say(world_, "\n" + trainer_.explain());
}

std::int64_t Training::recover(Training* before) {
  return go_on(checkpoints_.recover(before != nullptr ? &before->checkpoints_ : nullptr), before);
}

std::int64_t Training::take_state(sinew::World& all, Training* before) {
  const bool whole = Checkpoints::hand_over(all, before != nullptr ? &before->checkpoints_ : nullptr, &checkpoints_);
  return go_on(whole ? trainer_.steps_done() : checkpoints_.recover_from_files(), before);
}

std::int64_t Training::go_on(std::int64_t first, Training* before) {
  first_ = first;
  is_recovered_ = true;
  if (before != nullptr) reports_ = before->reports_;
  std::erase_if(reports_, [this](const StepReport& report) { return report.step >= first_; });
  checkpoints_.copy_to_buddies();  // while `before` still has the copies from which the state came
  return first_;
}

void Training::begin() {
  if (!options_.save.empty()) sp::require_folder_for_checkpoints(world_.communicator(), options_.save);
  first_ = checkpoints_.resume();
  if (first_ > 0) say(world_, fmt::format("going on with step {} from '{}'", first_, options_.resume));
}

bool Training::steps(const std::function<bool()>& stops) {
  Metrics metrics(world_.rank() == 0 ? options_.metrics : "", first_);
  for (std::int64_t step = first_; step < options_.steps; ++step) {
    reports_.push_back(trainer_.step(step));
    if (world_.rank() == 0) metrics.add(reports_.back());
    if (is_shown(options_, step) || reports_.back().is_skipped) say(world_, line_of(reports_.back()));
    checkpoints_.after(step);
    if (stop_ != nullptr && stop_->came_to_any(world_.communicator())) {
      checkpoints_.save(step);
      is_stopped_ = true;
      say(world_, fmt::format("a signal asks for the end: step {} is the last one, and is saved", step));
      return true;
    }
    if (stops && step + 1 < options_.steps && stops()) return false;
  }
  return true;
}

void Training::say_memory() {
  const auto held = static_cast<double>(trainer_.most_held());
  const auto predicted = static_cast<double>(
      sp::predict_memory(world_.size(), options_.job, engine_facts(options_.shape), trainer_.job().place()).total());
  const auto copies = static_cast<double>(checkpoints_.bytes_of_copies());
  std::array<double, 3> most{held, held / predicted, copies};  // of all ranks
  world_.communicator().all_reduce(most, sinew::ReduceOp::Max).get();
  const std::string beside =
      most[2] > 0 ? fmt::format(", and {:.2f} MiB for buddy copies", most[2] / (1 << 20)) : std::string();
  say(world_, fmt::format("memory     {:.2f} MiB held at most, {:.1f} % of what was predicted{}", most[0] / (1 << 20),
                          100 * most[1], beside));
}

std::optional<int> Training::run(const std::function<bool()>& stops) {
  if (world_.rank() == 0) plot_.emplace("--plot", options_.plot);
  if (!is_recovered_) begin();
  if (!steps(stops)) return std::nullopt;
  const bool saved = checkpoints_.finish();
  if (is_stopped_) return saved ? sinew::kSavedExitCode : 1;
  if (first_ < options_.steps) say_memory();
  if (!plot_ || !plot_->wanted() || reports_.empty()) return saved ? 0 : 1;
  sinew::draw::Curve curve{fmt::format("loss of {} steps", options_.steps), "step", "nats per byte", "loss"};
  for (const StepReport& r : reports_) curve.points.push_back({static_cast<double>(r.step), r.loss});
  plot_->write(sinew::draw::draw_curve(curve));
  return saved ? 0 : 1;
}

Text text_of(const Options& options) {
  if (options.plan && options.data.empty()) return {"", {}};
  return options.data.empty() ? licence_texts() : Text(options.data);
}

std::unique_ptr<sinew::StopRequest> stop_request(const Options& options) {
  return options.save.empty() ? nullptr : std::make_unique<sinew::StopRequest>();
}

int run(sinew::World& world, const Options& options, const Text& text) {
  if (options.plan) return plan(world, options);
  if (options.elastic) require_elastic(world, options);
  const std::unique_ptr<sinew::StopRequest> stop = stop_request(options);
  if (options.elastic) return train_elastic(world, options, text, stop.get());
  return Training(world, options, text, stop.get()).run().value();
}

}  // namespace gpt
