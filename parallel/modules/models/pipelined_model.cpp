#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/pipeline/passes/choose_sharding.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kPipelinedModel = "pipelined model";

/// The numbers of a rank's stages.
std::vector<std::int32_t> stages_on(const PipelineSchedule& schedule, int rank) {
  std::vector<std::int32_t> stages;
  for (std::int32_t s = 0; s < schedule.stages(); ++s) {
    if (schedule.rank_of[static_cast<std::size_t>(s)] == rank) stages.push_back(s);
  }
  return stages;
}

[[noreturn]] void refuse_model(const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", kPipelinedModel, why));
}

/// The module that a name of a policy stands for may be on any rank.
void require_names_on_some_rank(CallGroup pipeline, ModuleNames& names) {
  if (!names.empty() && GroupPlace(*pipeline).ranks > 1)
    pipeline->all_reduce(names.found(), ReduceOp::Max, pipeline.options(kPipelinedModel)).get();
  names.require_all_found();
}

/// A rank's modules by their stages. All ranks of the pipeline learn of a fault on any of them.
template <class T>
std::map<std::int32_t, ModulePtr<T>> by_stage(CallGroup pipeline, const PipelineSchedule& schedule,
                                              std::vector<ModulePtr<T>> modules, const PipelineEnds<T>& ends,
                                              const ModelOptions& options) {
  const GroupPlace place(*pipeline);
  const std::vector<std::int32_t> own = stages_on(schedule, place.rank);
  const auto check = [&] {
    if (options.data.device.exists())
      refuse_model("stages on a device; expected stages on the host, or a model without a pipeline");
    if (own.size() != modules.size())
      refuse_model(
          fmt::format("{} modules on rank {} of the pipeline, expected {}, one for each stage that '{}' has "
                      "there",
                      modules.size(), place.rank, own.size(), schedule.name));
    if (place.ranks > 1 && options.spread.empty())
      refuse_model(
          "ModelOptions::spread is empty, expected the axis of the pipeline, such as \"pp\", because its ranks have "
          "different parameters");
    if (own.empty()) return;
    if (own.front() == 0 && modules.front()->in_elements() > 0 && !ends.input)
      refuse_model("the first stage takes elements, expected PipelineEnds::input");
    if (own.back() + 1 == schedule.stages() && modules.back()->out_elements() > 0 && !ends.loss)
      refuse_model("the last stage makes elements, expected PipelineEnds::loss");
  };
  if (place.ranks > 1) {
    on_all_or_none(pipeline, kPipelinedModel, check);
  } else {
    check();
  }
  ModulePolicies<T> policies(options);
  std::map<std::int32_t, ModulePtr<T>> stages;
  for (std::size_t i = 0; i < own.size(); ++i) stages[own[i]] = policies.apply(std::move(modules[i]));
  for (ModuleNames& names : policies.names()) require_names_on_some_rank(pipeline, names);
  return stages;
}

/// Two stages would be saved as one parameter, and begin with the same values.
void require_different_names(CallGroup pipeline, const std::vector<DataParallel*>& held) {
  if (GroupPlace(*pipeline).ranks < 2) return;
  std::vector<std::int64_t> mine;
  for (DataParallel* data : held) {
    for (const DataParameter& p : data->parameters()) mine.push_back(static_cast<std::int64_t>(hash_of(p.path)));
  }
  std::vector<std::int64_t> most{std::ssize(mine)};
  pipeline->all_reduce(most, ReduceOp::Max, pipeline.options(kPipelinedModel)).get();
  const std::vector<std::int64_t> own = mine;
  mine.resize(static_cast<std::size_t>(most[0]));
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(pipeline->size()));
  pipeline->all_gather(mine, all, pipeline.options(kPipelinedModel)).get();
  on_all_or_none(pipeline, kPipelinedModel, [&] {
    auto number = own.begin();
    for (DataParallel* data : held) {
      for (const DataParameter& p : data->parameters()) {
        if (std::ranges::count(all, *number++) > 1)
          refuse_model(fmt::format("two stages have a parameter '{}', expected names that differ", p.path));
      }
    }
  });
}

/// The units of a stage, from the number `first` of its first parameter on, in the order in which they are declared.
std::vector<std::string> units_from(const ParameterList::Family& family, std::size_t first) {
  std::vector<std::string> units;
  for (std::size_t p = first; p < family.parameters.size(); ++p) {
    if (std::ranges::find(units, family.parameters[p].unit) == units.end()) units.push_back(family.parameters[p].unit);
  }
  return units;
}

bool has_actions_on_parameters(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule.actions, [](const std::vector<Action>& of_rank) {
    return std::ranges::any_of(of_rank, [](const Action& a) { return !has_micro_batch(a.kind); });
  });
}

/// Bytes of stages: all of them, and those that are there at a time if units are gathered one after the other.
struct BytesOfStages {
  std::vector<StageBytes> all, by_unit;
};

void add_stage_bytes(BytesOfStages& bytes, const ParameterList::Family& family, const StageUnits& units,
                     const std::set<std::string>& outer, const DataRow& row, const Mesh& mesh) {
  if (family.parameters.empty()) return;
  const std::string axis = sharded_axis(row).axis;
  for (const auto& [stage, names] : units) {
    std::vector<DataParameter> of_stage;
    for (const DataParameter& p : family.parameters) {
      if (std::ranges::find(names, p.unit) != names.end()) of_stage.push_back(p);
    }
    const int shards = axis.empty() ? 1 : mesh.size(axis);
    const auto add = [](StageBytes& to, const StageBytes& more) {
      to = {to.parameters + more.parameters, to.gradients + more.gradients, to.shard + more.shard};
    };
    add(bytes.all[static_cast<std::size_t>(stage)], stage_bytes(of_stage, row, shards));
    add(bytes.by_unit[static_cast<std::size_t>(stage)], unit_bytes(of_stage, row, shards, outer));
  }
}

/// The largest values of all ranks that have an axis in common, however many axes are between them. So the ranks of all
/// groups choose alike.
std::vector<StageBytes> most_of_all(CallGroup pipeline, std::vector<Mesh*> meshes,
                                    const std::vector<StageBytes>& mine) {
  std::vector<std::int64_t> values;
  for (const StageBytes& b : mine) values.insert(values.end(), {b.parameters, b.gradients, b.shard});
  const auto over = [&](CallGroup group) {
    if (GroupPlace(*group).ranks > 1) group->all_reduce(values, ReduceOp::Max, group.options(kPipelinedModel)).get();
  };
  over(pipeline);
  for (Mesh* mesh : meshes) {
    for (const std::string& axes : mesh->groups()) over(mesh->along(axes));
  }
  std::vector<StageBytes> most;
  for (std::size_t i = 0; i < values.size(); i += 3) most.push_back({values[i], values[i + 1], values[i + 2]});
  return most;
}

}  // namespace

std::string stage_unit(const std::string& unit, std::int32_t stage) { return fmt::format("{}, stage {}", unit, stage); }

template <class T>
PipelinedModel<T>::PipelinedModel(Mesh& mesh, CallGroup pipeline, PipelineSchedule schedule,
                                  std::vector<ModulePtr<T>> stages, PipelineEnds<T> ends, Allocate allocate,
                                  const ModelOptions& options)
    : schedule_(std::move(schedule)),
      stages_(by_stage<T>(pipeline, schedule_, std::move(stages), ends, options)),
      ends_(std::move(ends)),
      parameters_(declared(mesh, pipeline, std::move(allocate), options)) {
  make_runners(pipeline);
}

template <class T>
PipelinedModel<T>::PipelinedModel(DataParallel& dense, DataParallel* experts, CallGroup pipeline,
                                  PipelineSchedule schedule, std::vector<ModulePtr<T>> stages, PipelineEnds<T> ends,
                                  const DataParameter& like)
    : schedule_(std::move(schedule)),
      stages_(by_stage<T>(pipeline, schedule_, std::move(stages), ends, {.spread = like.spread})),
      ends_(std::move(ends)),
      parameters_(declared_elsewhere(dense, experts, like)) {
  make_runners(pipeline);
}

template <class T>
void PipelinedModel<T>::make_runners(CallGroup pipeline) {
  add_held(parameters_.dense, dense_units_);
  add_held(parameters_.experts, expert_units_);
  if (has_shared_) shared_unit_ = parameters_.dense->unit(unit_);
  copies_ = std::make_unique<StageCopies<T>>(pipeline, parameters_.copies, *parameters_.dense);
  std::vector<DataParallel*> all;
  std::vector<StepProtocol*> steps;
  for (const HeldStages& held : held_) {
    all.push_back(held.data);
    steps.push_back(&held.data->protocol());
  }
  require_different_names(pipeline, all);
  auto& engine = static_cast<StageEngine&>(*this);
  training_ = std::make_unique<PipelineRunner>(pipeline, schedule_, engine, steps);
  evaluation_ = std::make_unique<PipelineRunner>(pipeline, forward_only(schedule_), engine, steps);
}

template <class T>
void PipelinedModel<T>::declare_stages(ParameterList& list) {
  const std::string unit = list.like().unit;
  for (const auto& [stage, module] : stages_) {
    const std::size_t first = list.dense().parameters.size(), of_expert = list.experts().parameters.size();
    list.set_outer_unit(stage_unit(unit, stage));
    outer_units_.insert(stage_unit(unit, stage));
    module->declare(list);
    dense_units_[stage] = units_from(list.dense(), first);
    has_shared_ = std::erase(dense_units_[stage], unit) > 0 || has_shared_;
    expert_units_[stage] = units_from(list.experts(), of_expert);
  }
  unit_ = unit;
}

/// The parameters of the stages, held by data parallelism that others have made for a schedule.
template <class T>
ModelParameters PipelinedModel<T>::declared_elsewhere(DataParallel& dense, DataParallel* experts,
                                                      const DataParameter& like) {
  if (!has_actions_on_parameters(schedule_))
    refuse_model(
        fmt::format("'{}' has no actions on parameters, expected the schedule that data parallelism was made "
                    "for (Job::schedule)",
                    schedule_.name));
  ParameterList list(like);
  declare_stages(list);
  return held_parameters(dense, experts, list);
}

/// Declares the parameters of the stages, completes the schedule, and makes data parallelism that follows it.
template <class T>
ModelParameters PipelinedModel<T>::declared(Mesh& mesh, CallGroup pipeline, Allocate allocate,
                                            const ModelOptions& options) {
  const GroupPlace place(*pipeline);
  ParameterList list = empty_list(options);
  DataParallelOptions dense = options.data, of_experts = options.data;
  dense.step.gathered_bytes = of_experts.step.gathered_bytes = 0;
  const auto stages = static_cast<std::size_t>(schedule_.stages());
  BytesOfStages bytes{std::vector<StageBytes>(stages), std::vector<StageBytes>(stages)};
  const auto declare = [&] {
    declare_stages(list);
    add_stage_bytes(bytes, list.dense(), dense_units_, outer_units_, options.row, mesh);
    if (options.expert_mesh != nullptr)
      add_stage_bytes(bytes, list.experts(), expert_units_, outer_units_, options.expert_row, *options.expert_mesh);
  };
  const auto follow = [&] {
    const bool scatters =
        sharded_axis(options.row).gradient == Held::Sharded &&
        (list.experts().parameters.empty() || sharded_axis(options.expert_row).gradient == Held::Sharded);
    const ShardingBudget budget{options.data.step.gathered_bytes, scatters, bytes.by_unit};
    if (has_actions_on_parameters(schedule_)) {
      if (budget.bytes != 0)
        refuse_model(
            fmt::format("a budget of {} bytes beside '{}', which says itself when stages are gathered; "
                        "expected one of both",
                        budget.bytes, schedule_.name));
    } else {
      ShardingChoice choice = choose_sharding(schedule_, bytes.all, budget);
      by_unit_ = choice.active == 0;
      schedule_ = std::move(choice.schedule);
      why_ = std::move(choice.why);
    }
    const UnitGathers gathers = by_unit_ ? UnitGathers::ByUnit : UnitGathers::ByStage;
    dense.step.order = unit_order_of(schedule_, place.rank, dense_units_, gathers, outer_units_);
    if (has_shared_) dense.step.order = with_outer_unit(std::move(dense.step.order), options.unit);
    of_experts.step.order = unit_order_of(schedule_, place.rank, expert_units_, gathers, outer_units_);
  };
  if (place.ranks > 1) {
    on_all_or_none(pipeline, kPipelinedModel, declare);
  } else {
    declare();
  }
  std::vector<Mesh*> meshes{&mesh};
  if (options.expert_mesh != nullptr) meshes = {&mesh, options.expert_mesh, &mesh};
  bytes = {most_of_all(pipeline, meshes, bytes.all), most_of_all(pipeline, meshes, bytes.by_unit)};
  if (place.ranks > 1) {
    on_all_or_none(pipeline, kPipelinedModel, follow);
  } else {
    follow();
  }
  return parameters_of(mesh, list, std::move(allocate), options, dense, of_experts);
}

template <class T>
void PipelinedModel<T>::add_held(DataParallel* data, const StageUnits& units) {
  if (data == nullptr || data->parameters().empty()) return;
  HeldStages held{.data = data, .units = {}, .parameters = {}, .outer = {}};
  for (const auto& [stage, names] : units) {
    for (const std::string& name : names) {
      held.units[stage].push_back(data->unit(name));
      if (outer_units_.contains(name)) held.outer.insert(data->unit(name));
    }
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) {
      const std::string& unit = data->parameters()[static_cast<std::size_t>(p)].unit;
      if (std::ranges::find(names, unit) != names.end()) held.parameters[stage].push_back(p);
    }
  }
  held_.push_back(std::move(held));
}

template <class T>
Pass<T> PipelinedModel<T>::new_pass() {
  Pass<T> pass(*parameters_.dense, parameters_.experts, pool_, false, &ready_);
  pass.loss_scale = loss_scale_;
  pass.by_sample = sums_;
  pass.copies = copies_->copies();
  return pass;
}

/// Gathers what several stages share, and brings copies of it.
template <class T>
void PipelinedModel<T>::open_shared() {
  if (shared_unit_ >= 0) parameters_.dense->unshard(shared_unit_);
  copies_->begin_step();
}

template <class T>
TokenLoss PipelinedModel<T>::step(double loss_scale) {
  loss_ = {};
  loss_scale_ = loss_scale;
  evaluates_ = false;
  underway_.clear();
  ready_.clear();
  passed_.clear();
  open_shared();
  training_->run();
  Pass<T> last = new_pass();
  copies_->end_step(last);
  if (shared_unit_ >= 0) {
    require_shared_ready();
    parameters_.dense->reduce(shared_unit_);
    parameters_.dense->reshard(shared_unit_);
  }
  return loss_;
}

template <class T>
void PipelinedModel<T>::unshard(std::int32_t stage) {
  for (HeldStages& held : held_) {
    for (const std::int32_t unit : held.units[stage]) {
      if (!by_unit_) {
        held.data->unshard(unit);
      } else if (held.outer.contains(unit)) {
        held.data->begin_use(unit);
      }
    }
  }
}

/// A module enters a unit, if units are gathered one after the other.
template <class T>
void PipelinedModel<T>::enter(const std::string& unit, bool dense, bool experts) {
  if (dense) parameters_.dense->begin_use(parameters_.dense->unit(unit));
  if (experts) parameters_.experts->begin_use(parameters_.experts->unit(unit));
}

template <class T>
void PipelinedModel<T>::reshard(std::int32_t stage) {
  for (HeldStages& held : held_) {
    for (const std::int32_t unit : held.units[stage]) by_unit_ ? held.data->end_use(unit) : held.data->reshard(unit);
  }
}

template <class T>
void PipelinedModel<T>::reduce(std::int32_t stage) {
  require_all_ready(stage);
  if (by_unit_) return;  // units were reduced, or will be in reshard()
  for (HeldStages& held : held_) {
    const std::vector<std::int32_t>& units = held.units[stage];
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) held.data->reduce(*unit);
  }
}

/// Every module reports each of its parameters in every pass.
template <class T>
void PipelinedModel<T>::require_reports(std::int32_t number, const DataParallel& data, std::int32_t parameter,
                                        std::int64_t expected) const {
  const auto found = ready_.find(number);
  const std::int64_t reports = found == ready_.end() ? 0 : found->second;
  if (reports != expected)
    refuse_model(
        fmt::format("the gradient of '{}' was reported {} times, expected {}: once in each microbatch by each "
                    "module that has it (Pass::ready)",
                    data.parameters()[static_cast<std::size_t>(parameter)].path, reports, expected));
}

template <class T>
void PipelinedModel<T>::require_all_ready(std::int32_t stage) const {
  const auto passed = passed_.find(stage);
  for (const HeldStages& held : held_) {
    const auto own = held.parameters.find(stage);
    if (own == held.parameters.end()) continue;
    for (const std::int32_t p : own->second)
      require_reports(held.data == parameters_.experts ? -1 - p : p, *held.data, p,
                      passed == passed_.end() ? 0 : passed->second);
  }
}

template <class T>
void PipelinedModel<T>::require_shared_ready() const {
  const DataParallel& dense = *parameters_.dense;
  for (std::int32_t p = 0; p < std::ssize(dense.parameters()); ++p) {
    const auto modules = parameters_.shared.find(dense.parameters()[static_cast<std::size_t>(p)].path);
    if (modules != parameters_.shared.end())
      require_reports(p, dense, p, std::int64_t{modules->second} * schedule_.micro_batches);
  }
}

template <class T>
TokenLoss PipelinedModel<T>::evaluate() {
  loss_ = {};
  evaluates_ = true;
  underway_.clear();
  open_shared();
  evaluation_->run();
  if (shared_unit_ >= 0) parameters_.dense->reshard(shared_unit_);
  for (const HeldStages& held : held_) held.data->finish_forward();
  return loss_;
}

template <class T>
std::size_t PipelinedModel<T>::output_bytes(std::int32_t stage) const {
  return is_last(stage) ? 0 : static_cast<std::size_t>(module(stage).out_elements()) * sizeof(T);
}

template <class T>
std::size_t PipelinedModel<T>::forward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer in, Buffer out) {
  Underway& u = underway_.emplace(Key{stage, micro_batch}, Underway{new_pass(), {}, {}, {}, {}}).first->second;
  if (by_unit_) {
    u.pass.entered = [this](const std::string& unit, bool dense, bool experts) { enter(unit, dense, experts); };
  }
  if (ends_.batch) u.pass.batch = ends_.batch(micro_batch);
  u.pass.keeps = !evaluates_;
  u.x = pool_.take(module(stage).in_elements());
  if (stage == 0) {
    if (u.x.size() > 0) ends_.input(micro_batch, u.x.data());
  } else {
    if (in.bytes != u.x.size() * sizeof(T))
      throw Error(
          Code::InvalidArgument,
          fmt::format("pipelined model: stage {} takes {} bytes, expected {}, as the stage before it makes them", stage,
                      u.x.size() * sizeof(T), in.bytes));
    std::memcpy(u.x.data(), in.data, in.bytes);
  }
  if (!is_last(stage)) {
    module(stage).forward(u.pass, u.x.data(), u.kept, reinterpret_cast<T*>(out.data));
  } else {
    u.out = pool_.take(module(stage).out_elements());
    module(stage).forward(u.pass, u.x.data(), u.kept, u.out.data());
    if (u.out.size() > 0) ends_.loss(micro_batch, u.out.data());
  }
  if (!module(stage).needs_input()) u.x = {};
  loss_.sum += u.pass.loss.sum;
  loss_.tokens += u.pass.loss.tokens;
  if (evaluates_) underway_.erase(Key{stage, micro_batch});
  return out.bytes;
}

template <class T>
const T* PipelinedModel<T>::gradient_of_output(std::int32_t stage, Underway& u, ConstBuffer dout) const {
  return is_last(stage) ? u.out.data() : reinterpret_cast<const T*>(dout.data);
}

template <class T>
std::size_t PipelinedModel<T>::backward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) {
  const auto found = underway_.find(Key{stage, micro_batch});
  Underway& u = found->second;
  T* const dx = stage == 0 ? nullptr : reinterpret_cast<T*>(din.data);
  module(stage).backward(u.pass, u.x.data(), u.kept, gradient_of_output(stage, u, dout), dx);
  ++passed_[stage];
  underway_.erase(found);
  return din.bytes;
}

template <class T>
std::size_t PipelinedModel<T>::input_gradient(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout,
                                              Buffer din) {
  Underway& u = underway_.at(Key{stage, micro_batch});
  if (!is_last(stage)) {
    u.dout = pool_.take(module(stage).out_elements());
    std::memcpy(u.dout.data(), dout.data, dout.bytes);
  }
  T* const dx = stage == 0 ? nullptr : reinterpret_cast<T*>(din.data);
  module(stage).input_gradient(u.pass, u.x.data(), u.kept, gradient_of_output(stage, u, dout), dx);
  return din.bytes;
}

template <class T>
void PipelinedModel<T>::weight_gradient(std::int32_t stage, std::int32_t micro_batch) {
  const auto found = underway_.find(Key{stage, micro_batch});
  Underway& u = found->second;
  module(stage).weight_gradient(u.pass, u.x.data(), u.kept, is_last(stage) ? u.out.data() : u.dout.data());
  ++passed_[stage];
  underway_.erase(found);
}

template class PipelinedModel<float>;
template class PipelinedModel<double>;

}  // namespace sinew::parallel
