#include <optional>
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

Job::Job(World& world, const JobConfig& config, const EngineFacts& engine, const InitialValues& initial,
         const InitialValues& of_experts)
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
  const bool has_experts = engine.experts > 0;
  std::optional<DataStrategy> of_them;
  if (has_experts) {
    of_them.emplace(expert_strategy(world.size(), config_));
    expert_mesh_ = std::make_unique<Mesh>(world.communicator(), of_them->shape, of_them->groups);
  }
  const auto allocate = [&world](std::size_t bytes) { return world.allocate(bytes); };
  data_ = std::make_unique<DataParallel>(*mesh_, engine.parameters(config_, place()), initial, strategy.row, allocate,
                                         strategy.options);
  if (!has_experts) return;
  experts_ = std::make_unique<DataParallel>(*expert_mesh_, engine.expert_parameters(config_, place()), of_experts,
                                            of_them->row, allocate, of_them->options);
  const std::vector<int> ep = of_them->shape.group_of(world.rank(), "ep");
  for (const int rank : ep) expert_hosts_.push_back(world.cluster().ranks[static_cast<std::size_t>(rank)].host);
}

RankPlace Job::place() const {
  RankPlace place{mesh_->index("tp"), mesh_->index(context_axes_), mesh_->index("pp")};
  if (expert_mesh_) place.ep = expert_mesh_->index("ep"), place.etp = expert_mesh_->index("etp");
  return place;
}

Communicator& Job::summing() { return mesh_->along(sum_axes_); }

}  // namespace sinew::parallel
