#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/pipeline/csv.hpp>

namespace sinew::parallel {

namespace {

JobConfig with_schedule(JobConfig config) {
  if (!config.proved) config.proved = proved_schedule(config);
  return config;
}

/// What is in a file, too, which each rank reads for itself.
std::string schedule_text(const JobConfig& config) {
  if (stages(config) <= 1 || !config.schedule.ends_with(".csv")) return config.schedule;
  try {
    return to_csv(schedule_of(config));
  } catch (const Error& e) {  // a rule says so
    return e.what();
  }
}

}  // namespace

Job::Job(World& world, const JobConfig& config, const EngineFacts& engine, const InitialValues& initial)
    : config_(with_schedule(config)), samples_of_pass_(parallel::samples_of_pass(world.size(), config)) {
  require_equal_on_all(world.communicator(), "configuration of the job", to_string(config_), {});
  require_equal_on_all(world.communicator(), "engine of the job", engine.identity, {});
  require_equal_on_all(world.communicator(), "schedule of the job", schedule_text(config_), {});
  require_no_violations(world.size(), config_, engine);
  DataStrategy strategy = data_strategy(world.size(), config_, engine);
  sum_axes_ = strategy.ranks;
  sample_axes_ = strategy.samples;
  context_axes_ = strategy.context;
  head_sharers_ = strategy.head_sharers;
  ring_ = strategy.ring;
  mesh_ = std::make_unique<Mesh>(world.communicator(), strategy.shape, strategy.groups);
  data_ = std::make_unique<DataParallel>(
      *mesh_, engine.parameters(config_, place()), initial, strategy.row,
      [&world](std::size_t bytes) { return world.allocate(bytes); }, strategy.options);
}

Communicator& Job::summing() { return mesh_->along(sum_axes_); }

}  // namespace sinew::parallel
