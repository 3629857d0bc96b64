#include "run.hpp"

#include <cstdio>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/job/surviving_job.hpp>

#include "elastic.hpp"
#include "trainer.hpp"
#include "training.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

int plan(const sinew::World& world, const Options& options) {
  const int ranks = options.plan_ranks > 0 ? options.plan_ranks : world.size();
  const sp::EngineFacts engine = engine_facts(options.shape);
  sp::require_no_violations(ranks, options.job, engine);
  say(world, sp::describe(ranks, options.job, engine) + "\n\n" + sp::row_table(ranks, options.job, engine));
  return 0;
}

void require_elastic(const sinew::World& world, const Options& options) {
  if (!options.save.empty() || sp::is_held_by_each(options.job)) return;
  throw sinew::Error(sinew::Code::InvalidArgument,
                     fmt::format("--elastic: of {} ranks by {} each holds a part, which can be lost with it; expected "
                                 "--save DIR",
                                 world.size(), sp::row_name(options.job)));
}

}  // namespace

Text text_of(const Options& options) {
  if (options.plan && options.data.empty()) return {"", {}};
  return options.data.empty() ? licence_texts() : Text(options.data);
}

int run(sinew::World& world, const Options& options, const Text& text) {
  if (options.plan) return plan(world, options);
  if (options.elastic) require_elastic(world, options);
  return options.elastic ? train_elastic(world, options, text) : Training(world, options, text).run();
}

}  // namespace gpt
