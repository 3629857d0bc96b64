#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/job/stage_sharding.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>

namespace sinew::parallel {

namespace {

JobConfig with_schedule(JobConfig config) {
  if (!config.proved) config.proved = proved_schedule(config);
  return config;
}

/// The schedule as text, by which ranks compare it. For a file, the text is the schedule in it, because each rank reads
/// the file for itself.
std::string schedule_text(const JobConfig& config) {
  if (stages(config) <= 1 || !config.schedule.ends_with(".csv")) return config.schedule;
  try {
    return to_csv(schedule_of(config));
  } catch (const Error& e) {  // a rule says so
    return e.what();
  }
}

/// Wraps the engine's functions in run_user_code.
template <class Result, class... Arguments>
void guard(std::function<Result(Arguments...)>& code, const char* name, Communicator& all) {
  if (!code) return;
  code = [&all, name, code](Arguments... arguments) {
    return run_user_code(
        all, [&] { return fmt::format("{} of the engine", name); }, [&] { return code(arguments...); });
  };
}

EngineFacts guarded(EngineFacts engine, Communicator& all) {
  guard(engine.parameters, "parameters", all);
  guard(engine.expert_parameters, "expert_parameters", all);
  guard(engine.activation_bytes, "activation_bytes", all);
  guard(engine.stage_of_unit, "stage_of_unit", all);
  return engine;
}

}  // namespace

Job::Job(World& world, const JobConfig& config, const EngineFacts& of_engine, const InitialValues& initial,
         const InitialValues& of_experts, const std::source_location& where)
    : config_(with_schedule(config)), samples_of_pass_(parallel::samples_of_pass(world.size(), config)) {
  const CallOptions call{.where = where};
  Communicator& all = world.communicator();
  require_equal_on_all(all, "configuration of the job", to_string(config_), call);
  require_equal_on_all(all, "engine of the job", of_engine.identity, call);
  require_equal_on_all(all, "schedule of the job", schedule_text(config_), call);
  const EngineFacts engine = guarded(of_engine, all);
  require_no_violations(world.size(), config_, engine);
  DataStrategy strategy = data_strategy(world.size(), config_, engine);
  sum_axes_ = strategy.ranks;
  sample_axes_ = strategy.samples;
  context_axes_ = strategy.context;
  head_sharers_ = strategy.head_sharers;
  ring_ = strategy.ring;
  mesh_ = std::make_unique<Mesh>(all, strategy.shape, strategy.groups, call);
  const bool has_experts = engine.experts > 0;
  std::optional<DataStrategy> of_them;
  if (has_experts) {
    of_them.emplace(expert_strategy(world.size(), config_));
    expert_mesh_ = std::make_unique<Mesh>(all, of_them->shape, of_them->groups, call);
  }
  const std::vector<DataParameter> dense = engine.parameters(config_, place());
  if (follows_schedule(config_, engine)) {
    ShardingChoice choice = sharded_schedule(world.size(), config_, engine);
    sharded_ = std::move(choice.schedule);
    why_sharded_ = std::move(choice.why);
    follow(strategy, *sharded_, config_, engine, place(), dense);
  }
  const auto allocate = [&world](std::size_t bytes) { return world.allocate(bytes); };
  data_ = std::make_unique<DataParallel>(*mesh_, dense, initial, strategy.row, allocate, strategy.options, where);
  if (!has_experts) return;
  const std::vector<DataParameter> experts = engine.expert_parameters(config_, place());
  if (sharded_) follow(*of_them, *sharded_, config_, engine, place(), experts);
  experts_ = std::make_unique<DataParallel>(*expert_mesh_, experts, of_experts, of_them->row, allocate,
                                            of_them->options, where);
  const std::vector<int> ep = of_them->shape.group_of(world.rank(), "ep");
  for (const int rank : ep) expert_hosts_.push_back(world.cluster().ranks[static_cast<std::size_t>(rank)].host);
}

PipelineSchedule Job::schedule() const {
  if (stages(config_) <= 1)
    throw Error(Code::InvalidArgument, "Job::schedule() of a job with one stage, expected a pipeline");
  return sharded_ ? *sharded_ : schedule_of(config_);
}

RankPlace Job::place() const {
  RankPlace place{mesh_->index("tp"), mesh_->index(context_axes_), mesh_->index("pp")};
  if (expert_mesh_) place.ep = expert_mesh_->index("ep"), place.etp = expert_mesh_->index("etp");
  return place;
}

std::string Job::explain() {
  std::string text = "exchanges of data parallelism\n" + data_->explain();
  if (experts_) text += "exchanges of data parallelism of experts\n" + experts_->explain();
  return text;
}

Communicator& Job::summing() { return mesh_->along(sum_axes_); }

}  // namespace sinew::parallel
