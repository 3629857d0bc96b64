#include "training.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>

#include "loss_plot.hpp"
#include "output_file.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

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

Training::Training(sinew::World& world, Options options, const Text& text)
    : world_(world),
      options_(std::move(options)),
      trainer_(world, options_, text),
      checkpoints_(world, options_, trainer_) {
  say(world_, sp::describe(world_.size(), options_.job, engine_facts(options_.shape)));
}

std::int64_t Training::recover(Training* before) {
  first_ = checkpoints_.recover(before != nullptr ? &before->checkpoints_ : nullptr);
  is_recovered_ = true;
  if (before != nullptr) reports_ = before->reports_;
  std::erase_if(reports_, [this](const StepReport& report) { return report.step >= first_; });
  return first_;
}

void Training::begin() {
  if (!options_.save.empty()) sp::require_folder_for_checkpoints(world_.communicator(), options_.save);
  first_ = checkpoints_.resume();
  if (first_ > 0) say(world_, fmt::format("going on with step {} from '{}'", first_, options_.resume));
  if (!options_.plot.empty() && world_.rank() == 0) require_writable(options_.plot);
}

void Training::steps() {
  Metrics metrics(world_.rank() == 0 ? options_.metrics : "", first_);
  for (std::int64_t step = first_; step < options_.steps; ++step) {
    reports_.push_back(trainer_.step(step));
    if (world_.rank() == 0) metrics.add(reports_.back());
    if (is_shown(options_, step) || reports_.back().is_skipped) say(world_, line_of(reports_.back()));
    checkpoints_.after(step);
  }
}

void Training::say_memory() {
  const auto held = static_cast<double>(trainer_.most_held());
  const auto predicted = static_cast<double>(
      sp::predict_memory(world_.size(), options_.job, engine_facts(options_.shape), trainer_.job().place()).total());
  std::array<double, 2> most{held, held / predicted};  // of all ranks
  world_.communicator().all_reduce(most, sinew::ReduceOp::Max).get();
  say(world_, fmt::format("memory     {:.2f} MiB held at most, {:.1f} % of what was predicted", most[0] / (1 << 20),
                          100 * most[1]));
}

int Training::run() {
  if (!is_recovered_) begin();
  steps();
  const bool saved = checkpoints_.finish();
  if (first_ < options_.steps) say_memory();
  if (!options_.plot.empty() && world_.rank() == 0 && !reports_.empty())
    write_file(options_.plot, loss_plot(reports_, fmt::format("loss of {} steps", options_.steps)));
  return saved ? 0 : 1;
}

}  // namespace gpt
