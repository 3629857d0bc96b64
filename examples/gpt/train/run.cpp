#include "run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>

#include "checkpoints.hpp"
#include "loss_plot.hpp"
#include "metrics.hpp"
#include "output_file.hpp"
#include "trainer.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

void say(const sinew::World& world, const std::string& text) {
  if (world.rank() == 0) fmt::print("{}\n", text);
  std::fflush(stdout);
}

int plan(const sinew::World& world, const Options& options) {
  const int ranks = options.plan_ranks > 0 ? options.plan_ranks : world.size();
  const sp::EngineFacts engine = engine_facts(options.shape);
  sp::require_no_violations(ranks, options.job, engine);
  say(world, sp::describe(ranks, options.job, engine) + "\n\n" + sp::row_table(ranks, options.job, engine));
  return 0;
}

/// Every step where somebody watches or there are few, else some forty of them, the last one always.
bool is_shown(const Options& options, std::int64_t step) {
  const std::int64_t every = isatty(STDOUT_FILENO) != 0 ? 1 : std::max<std::int64_t>(options.steps / 40, 1);
  return step % every == 0 || step + 1 == options.steps;
}

}  // namespace

Text text_of(const Options& options) {
  if (options.plan && options.data.empty()) return {"", {}};
  return options.data.empty() ? licence_texts() : Text(options.data);
}

int run(sinew::World& world, const Options& options, const Text& text) {
  if (options.plan) return plan(world, options);
  Trainer trainer(world, options, text);
  say(world, sp::describe(world.size(), options.job, engine_facts(options.shape)));
  if (!options.save.empty()) sp::require_folder_for_checkpoints(world.communicator(), options.save);
  Checkpoints checkpoints(world, options, trainer);
  const std::int64_t first = checkpoints.resume();
  if (first > 0) say(world, fmt::format("going on with step {} from '{}'", first, options.resume));

  if (!options.plot.empty() && world.rank() == 0) require_writable(options.plot);
  Metrics metrics(world.rank() == 0 ? options.metrics : "", first);
  std::vector<StepReport> reports;
  for (std::int64_t step = first; step < options.steps; ++step) {
    reports.push_back(trainer.step(step));
    if (world.rank() == 0) metrics.add(reports.back());
    if (is_shown(options, step)) say(world, line_of(reports.back()));
    checkpoints.after(step);
  }
  const bool saved = checkpoints.finish();
  if (!reports.empty()) {
    const auto held = static_cast<double>(trainer.most_held());
    const auto predicted = static_cast<double>(
        sp::predict_memory(world.size(), options.job, engine_facts(options.shape), trainer.job().place()).total());
    std::array<double, 2> most{held, held / predicted};  // of all ranks
    world.communicator().all_reduce(most, sinew::ReduceOp::Max).get();
    say(world, fmt::format("memory     {:.2f} MiB held at most, {:.1f} % of what was predicted", most[0] / (1 << 20),
                           100 * most[1]));
  }
  if (!options.plot.empty() && world.rank() == 0 && !reports.empty())
    write_file(options.plot, loss_plot(reports, fmt::format("loss of {} steps", options.steps)));
  return saved ? 0 : 1;
}

}  // namespace gpt
