#include <algorithm>
#include <cassert>
#include <cstring>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data/data_parallel.hpp>
#include <sinew/parallel/data/data_rules.hpp>
#include <sinew/parallel/data/equal_parameters.hpp>
#include <sinew/parallel/data/other_passes.hpp>
#include <sinew/parallel/data/phase.hpp>
#include <sinew/parallel/data/step_memory.hpp>
#include <sinew/parallel/mesh/at.hpp>

namespace sinew::parallel {
namespace {

/// Parts of values that are whole here.
InitialValues copies_of(std::span<const ConstBuffer> values) {
  return [values](std::int32_t parameter, std::int64_t first, std::int64_t last, Buffer into) {
    const std::size_t element = into.bytes / static_cast<std::size_t>(last - first);
    std::memcpy(into.data, values[at(parameter)].data + static_cast<std::size_t>(first) * element, into.bytes);
  };
}

}  // namespace

struct DataParallel::Start {
  std::optional<std::span<const ConstBuffer>> values;  // whole, to be compared
  InitialValues initial;
};

struct DataParallel::State {
  Mesh* mesh;
  std::vector<DataParameter> parameters;
  DataRow row;
  DataAxis sharded;
  DataParallelOptions options;
  StepMemory memory;
  std::vector<std::string> units;
  std::vector<std::vector<std::int32_t>> members;  // parameters of each
  std::optional<Phase> synced, unsynced, forward;
  Pass pass = Pass::Whole;
  bool rebuilds = false;
  bool accumulated = false;
  bool summed = false;  // gradients: between finish_backward and the end of the step
  std::size_t gradient_room = 0;

  State(Mesh& m, std::vector<DataParameter> p, const DataRow& r, Allocate allocate, const DataParallelOptions& o)
      : mesh(&m),
        parameters(std::move(p)),
        row(r),
        sharded(parallel::sharded_axis(r)),
        options(o),
        memory(m, parameters, row, std::move(allocate), options) {
    std::map<std::string_view, std::size_t> numbers;
    for (std::int32_t i = 0; i < std::ssize(parameters); ++i) {
      const std::string& unit = parameters[at(i)].unit;
      const auto [number, is_new] = numbers.emplace(unit, units.size());
      if (is_new) {
        units.push_back(unit);
        members.emplace_back();
      }
      members[number->second].push_back(i);
    }
    rebuilds = o.rebuild_buckets && sharded.optimizer == Held::Whole;
  }

  void require_unit(std::int32_t unit) const { require_number("unit", unit, units.size()); }
  void require_parameter(std::int32_t p) const { require_number("parameter", p, parameters.size()); }
  bool shards_gradients() const noexcept { return sharded.gradient == Held::Sharded; }

  Phase& phase_of(Pass p) { return p == Pass::Whole ? *synced : p == Pass::Unsynced ? *unsynced : *forward; }
  /// The pass that has begun and not ended.
  std::optional<Pass> underway() {
    for (const Pass p : {Pass::Whole, Pass::Unsynced, Pass::ForwardOnly}) {
      if (!phase_of(p).runner.idle()) return p;
    }
    return std::nullopt;
  }
  Phase& now() {
    Phase& meant = phase_of(pass);
    if (!meant.runner.idle()) return meant;
    if (const auto left = underway())
      throw Error(Code::InvalidArgument, fmt::format("{}() ended in the middle of a pass; expected abandon_step()",
                                                     *left == Pass::Unsynced ? "no_sync" : "forward_only"));
    return meant;
  }
  Phase& with_backward(std::string_view call) {
    if (pass != Pass::ForwardOnly) return now();
    throw Error(Code::InvalidArgument, fmt::format("{}: within forward_only() there is no backward pass", call));
  }

  /// Known before the first step, and anew when gradients are added up for the first time.
  void plan_memory(bool accumulates) {
    accumulated = accumulates;
    memory.keep_to(parallel::plan_memory(parameters, row, options, mesh->shape(),
                                         {.accumulates = accumulates, .index = memory.index()}));
  }

  void run(const StepPlan& plan) {
    const bool gathers = sharded.parameter == Held::Sharded;
    memory.place_gradients(plan.groups);
    gradient_room = room_for_gradients();
    synced.emplace(plan.graph, memory, parameters, units);
    unsynced.emplace(without_sync(plan.graph, parameters.size(), gathers), memory, parameters, units);
    forward.emplace(forward_half(plan.graph), memory, parameters, units);
  }

  /// Once: buckets in the order in which rank 0's gradients came.
  void rebuild(std::vector<std::int32_t> order) {
    rebuilds = false;
    for (const DataAxis& a : row.axes) mesh->along(a.axis).broadcast(order, 0).get();
    run(plan_step(parameters, row, options.step, order));
  }

  std::vector<std::int32_t> order_of_gradients() const {
    std::map<std::int32_t, std::int32_t> parameter_of;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      parameter_of.emplace(synced->gradients[p], static_cast<std::int32_t>(p));
    std::vector<std::int32_t> order;
    for (const std::int32_t node : synced->runner.reported()) {
      const auto p = parameter_of.find(node);
      if (p != parameter_of.end()) order.push_back(p->second);
    }
    return order;
  }

  /// Of gradients that are scattered while the engine goes on: those that are being written, and as many under way.
  std::size_t room_for_gradients() const {
    if (!shards_gradients() || sharded.parameter == Held::Sharded) return 0;
    if (options.step.gathered_bytes > 0) return static_cast<std::size_t>(options.step.gathered_bytes);
    std::int64_t largest = 0;
    for (std::int32_t p = 0; p < std::ssize(parameters); ++p) largest = std::max(largest, memory.gradient_bytes(p));
    return static_cast<std::size_t>(2 * largest);
  }

  /// Before one more whole gradient is there: others are scattered first where they would be too many.
  void make_room_for_gradient(std::int32_t parameter) {
    if (gradient_room == 0 || memory.has_gradient(parameter)) return;
    const auto bytes = static_cast<std::size_t>(memory.gradient_bytes(parameter));
    while (memory.held().of(Purpose::Underway) + bytes > gradient_room && now().runner.finish_one()) {
    }
  }

  /// What was not reported counts as reported, with what its gradient holds.
  void report_unused(Phase& phase, const std::vector<std::int32_t>& of) {
    for (const std::int32_t p : of) {
      const std::int32_t signal = phase.gradients[at(p)];
      if (phase.runner.is_complete(signal)) continue;
      (void)memory.gradient(p);
      while (!phase.runner.is_complete(signal)) phase.runner.signal(signal);
    }
  }

 private:
  static void require_number(std::string_view what, std::int32_t found, std::size_t count) {
    if (found >= 0 && at(found) < count) return;
    throw Error(Code::InvalidArgument,
                fmt::format("{} {}: expected one of the {} that there are, from 0 on", what, found, count));
  }
};

DataParallel::DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, std::span<const ConstBuffer> values,
                           const DataRow& row, Allocate allocate, const DataParallelOptions& options)
    : DataParallel(mesh, std::move(parameters), Start{values, copies_of(values)}, row, std::move(allocate), options) {}

DataParallel::DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const InitialValues& initial,
                           const DataRow& row, Allocate allocate, const DataParallelOptions& options)
    : DataParallel(mesh, std::move(parameters), Start{{}, initial}, row, std::move(allocate), options) {}

DataParallel::DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const Start& start, const DataRow& row,
                           Allocate allocate, const DataParallelOptions& options) {
  std::vector<std::string> axes;
  for (const DataAxis& a : row.axes) axes.push_back(a.axis);
  StepPlan plan;
  std::optional<Error> fault;
  try {
    plan = plan_step(parameters, row, options.step);
    require_sound(parameters, row, options, start.values);
    require_groups(mesh, axes, plan.graph);
  } catch (const Error& e) {
    fault = e;
  }
  require_no_fault(mesh, axes, fault);
  require_equal_parameters(mesh, axes, text_of(row, options), parameters, start.values);
  state_ = std::make_unique<State>(mesh, std::move(parameters), row, std::move(allocate), options);
  state_->memory.make_groups(plan.graph);
  state_->memory.place_values(plan.groups, start.initial);
  state_->plan_memory(false);
  state_->run(plan);
}

DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&&) noexcept = default;
DataParallel::~DataParallel() = default;

std::int32_t DataParallel::unit(std::string_view name) const {
  const auto found = std::ranges::find(state_->units, name);
  if (found != state_->units.end()) return static_cast<std::int32_t>(found - state_->units.begin());
  throw Error(Code::InvalidArgument,
              fmt::format("unit '{}': expected one of {}", name, fmt::join(state_->units, ", ")));
}

void DataParallel::before_forward(std::int32_t unit) {
  state_->require_unit(unit);
  state_->now().gate(state_->now().by_unit[at(unit)].before_forward);
}
void DataParallel::after_forward(std::int32_t unit) {
  state_->require_unit(unit);
  state_->now().signal(state_->now().by_unit[at(unit)].after_forward);
}
void DataParallel::before_backward(std::int32_t unit) {
  state_->require_unit(unit);
  Phase& phase = state_->with_backward("before_backward");
  phase.gate(phase.by_unit[at(unit)].before_backward);
}
void DataParallel::after_backward(std::int32_t unit) {
  state_->require_unit(unit);
  Phase& phase = state_->with_backward("after_backward");
  // The exchanges of the units below wait for this one's, so it cannot be left for the end.
  if (state_->options.unused_are_zero && state_->sharded.parameter == Held::Sharded)
    state_->report_unused(phase, state_->members[at(unit)]);
  phase.signal(phase.by_unit[at(unit)].after_backward);
}

Buffer DataParallel::parameter(std::int32_t parameter) {
  state_->require_parameter(parameter);
  if (state_->memory.has_value(parameter)) return state_->memory.value(parameter);
  const DataParameter& p = state_->parameters[at(parameter)];
  throw Error(Code::InvalidArgument,
              fmt::format("parameter '{}': only this rank's part of it is here; expected before_forward or "
                          "before_backward of '{}' first",
                          p.path, p.unit));
}
Buffer DataParallel::gradient(std::int32_t parameter) {
  state_->require_parameter(parameter);
  if (state_->summed && state_->shards_gradients()) {
    throw Error(Code::InvalidArgument,
                fmt::format("gradient of '{}': it is summed, and only parts of it are left: those of finish_backward",
                            state_->parameters[at(parameter)].path));
  }
  state_->make_room_for_gradient(parameter);
  return state_->memory.gradient(parameter);
}
void DataParallel::gradient_ready(std::int32_t parameter) {
  state_->require_parameter(parameter);
  Phase& phase = state_->with_backward("gradient_ready");
  phase.signal(phase.gradients[at(parameter)]);
}

void DataParallel::finish_forward() {
  if (state_->pass != Pass::ForwardOnly)
    throw Error(Code::InvalidArgument, "finish_forward: expected within forward_only(); a step ends with updated()");
  state_->now().runner.finish();
}

std::vector<OwnedPart> DataParallel::finish_backward() {
  Phase& phase = state_->with_backward("finish_backward");
  if (state_->options.unused_are_zero) {
    for (const auto& of_unit : state_->members) state_->report_unused(phase, of_unit);
  }
  if (state_->pass == Pass::Unsynced) {
    phase.runner.finish();
    return {};
  }
  phase.gate(phase.optimizer);
  state_->summed = true;
  return state_->memory.owned();
}

void DataParallel::abandon_step() {
  State& s = *state_;
  std::exception_ptr failed;
  try {
    const Pass given_up = s.underway().value_or(s.pass);
    s.phase_of(given_up).runner.abandon();
    // Ranks that are further may sum already.
    if (given_up == Pass::Unsynced && s.unsynced->runner.graph().next_exchange() == 0) s.synced->runner.abandon();
  } catch (...) {
    failed = std::current_exception();
  }
  s.summed = false;
  s.memory.abandon();
  if (failed) std::rethrow_exception(failed);
}

void DataParallel::updated() {
  if (state_->pass != Pass::Whole)
    throw Error(Code::InvalidArgument,
                "updated: within no_sync() and forward_only() nothing is updated; expected when they have ended");
  Phase& phase = state_->now();
  state_->summed = false;
  phase.signal(phase.updated);
  assert(state_->memory.is_as_planned());
  std::vector<std::int32_t> order = state_->rebuilds ? state_->order_of_gradients() : std::vector<std::int32_t>{};
  try {
    phase.runner.finish();
  } catch (const Error&) {
    if (phase.runner.idle()) state_->memory.abandon();  // it is over, and nothing of it gets into the next one
    throw;
  }
  if (state_->rebuilds) {
    state_->rebuild(std::move(order));
  } else {
    state_->memory.clear_gradients();
  }
}

DataParallel::Scope::Scope(State& of, Pass pass) : of_(&of), before_(of.pass) {
  if (of.underway())
    throw Error(Code::InvalidArgument,
                fmt::format("{}: in the middle of a step; expected between two of them, or abandon_step()",
                            pass == Pass::Unsynced ? "no_sync" : "forward_only"));
  if (pass == Pass::Unsynced && !of.accumulated) of.plan_memory(true);
  of.pass = pass;
}
DataParallel::Scope::~Scope() {
  if (of_ != nullptr) of_->pass = before_;
}
DataParallel::Scope DataParallel::no_sync() { return {*state_, Pass::Unsynced}; }
DataParallel::Scope DataParallel::forward_only() { return {*state_, Pass::ForwardOnly}; }

const std::vector<DataParameter>& DataParallel::parameters() const noexcept { return state_->parameters; }
std::vector<OwnedPart> DataParallel::owned_values() { return state_->memory.owned_values(); }
bool DataParallel::keeps_whole_parameters() const noexcept { return state_->sharded.parameter == Held::Whole; }
const std::string& DataParallel::sharded_axis() const noexcept { return state_->sharded.axis; }
HeldMemory& DataParallel::memory() noexcept { return state_->memory.memory(); }
const HeldBytes& DataParallel::held() const noexcept { return state_->memory.held(); }
const MemoryPlan& DataParallel::planned() const noexcept { return state_->memory.planned(); }
const StepGraph& DataParallel::graph() const noexcept { return state_->synced->runner.graph(); }

}  // namespace sinew::parallel
