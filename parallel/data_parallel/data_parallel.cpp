#include <algorithm>
#include <cassert>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/data_rules.hpp>
#include <sinew/parallel/data_parallel/equal_parameters.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/data_parallel/memory/step_memory.hpp>
#include <sinew/parallel/data_parallel/memory_sources.hpp>
#include <sinew/parallel/data_parallel/pass_runner.hpp>
#include <sinew/parallel/data_parallel/plan/pass_graphs.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/data_parallel/predicted_prices.hpp>
#include <sinew/parallel/data_parallel/unit_uses.hpp>

namespace sinew::parallel {
struct DataParallel::Start {
  // Whole parameters, which ranks compare. {}: ranks do not compare them.
  std::optional<std::span<const ConstBuffer>> values;
  InitialValues initial;
};

struct DataParallel::State {
  Mesh* mesh;
  std::source_location where;
  std::vector<DataParameter> parameters;
  DataRow row;
  DataAxis sharded;
  DataParallelOptions options;
  StepMemory memory;
  std::vector<std::string> units;
  std::vector<std::vector<std::int32_t>> members;  // by unit: the numbers of its parameters
  std::vector<std::int32_t> unit_of;               // by parameter
  UnitUses training, evaluation;                   // if a schedule decides the order
  std::optional<StepProtocol> protocol;
  std::optional<Error> failed;  // the error of an exchange of this step
  std::optional<PassRunner> synced, unsynced, forward;
  std::vector<std::int32_t> order;  // of gradients, by which buckets were planned; {}: the last parameter's comes first
  bool rebuilds = false;
  bool accumulated = false;
  std::size_t gradient_room = 0;

  State(Mesh& m, std::vector<DataParameter> p, const DataRow& r, MemorySources sources, const DataParallelOptions& o,
        const std::source_location& at_line)
      : mesh(&m),
        where(at_line),
        parameters(std::move(p)),
        row(r),
        sharded(parallel::sharded_axis(r)),
        options(o),
        memory(m, parameters, row, std::move(sources.engine), std::move(sources.kept), options, where) {
    std::map<std::string_view, std::size_t> numbers;
    for (std::int32_t i = 0; i < std::ssize(parameters); ++i) {
      const std::string& unit = parameters[at(i)].unit;
      const auto [number, is_new] = numbers.emplace(unit, units.size());
      if (is_new) {
        units.push_back(unit);
        members.emplace_back();
      }
      members[number->second].push_back(i);
      unit_of.push_back(static_cast<std::int32_t>(number->second));
    }
    rebuilds = o.rebuild_buckets && sharded.optimizer == Held::Whole && !is_scheduled();
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// If an exception destroys this object after the communicators of the step have ended, abandon_step() will not
  /// follow, and this rank makes no further call. The destructor then also ends the groups of the mesh, because other
  /// ranks may wait in them for this rank.
  ~State() {
    if (!protocol || protocol->ended().empty() || std::uncaught_exceptions() == 0) return;
    try {
      for (const std::string& axes : mesh->groups()) {
        if (mesh->size(axes) > 1) mesh->along(axes).abort(protocol->ended());
      }
    } catch (const Error&) {  // the World has ended: all ranks know that
    }
  }

  void require_unit(std::int32_t unit) const { require_number("unit", unit, units.size()); }
  void require_parameter(std::int32_t p) const { require_number("parameter", p, parameters.size()); }
  bool is_scheduled() const noexcept { return !options.step.order.empty(); }
  bool shards_gradients() const noexcept { return sharded.gradient == Held::Sharded; }

  PassRunner& runner_of(PassKind kind) {
    return kind == PassKind::Whole ? *synced : kind == PassKind::Unsynced ? *unsynced : *forward;
  }
  /// The runner of the present kind of passes.
  PassRunner& now() { return runner_of(protocol->kind()); }
  /// The kind of the pass that has begun and not ended. If there is none, the present kind.
  PassKind underway() {
    for (const PassKind kind : {PassKind::Whole, PassKind::Unsynced, PassKind::ForwardOnly}) {
      if (!runner_of(kind).runner.idle()) return kind;
    }
    return protocol->kind();
  }

  bool is_idle() const noexcept { return synced->runner.idle() && unsynced->runner.idle() && forward->runner.idle(); }

  /// Makes the protocol that refuses calls which are not due.
  void begin_protocol() {
    training = UnitUses(options.step.order.training, units);
    evaluation = UnitUses(options.step.order.evaluation, units);
    StepProtocol::Shape shape{.gathers_units = sharded.parameter == Held::Sharded && !is_scheduled(),
                              .follows_schedule = is_scheduled(),
                              .scheduled = training.calls(),
                              .scheduled_forward = evaluation.calls(),
                              .unused_are_zero = options.unused_are_zero,
                              .owns_parts = !memory.owned_values().empty()};
    for (const std::string& unit : units) shape.units.push_back({unit, unit == options.step.outer_unit});
    for (std::size_t p = 0; p < parameters.size(); ++p)
      shape.gradients.push_back({parameters[p].path, unit_of[p], parameters[p].uses});
    protocol.emplace(std::move(shape), [this](const std::string& why) { memory.end_groups(why); });
    memory.memory().follow(*protocol);
  }

  /// Makes a call that may wait for exchanges. If the call fails because a rank has ended one of the step's groups, or
  /// because calls in a group do not match, all groups of the step end. So the ranks of the other groups learn of the
  /// failure.
  template <class Call>
  decltype(auto) exchanging(const Call& call) {
    try {
      return call();
    } catch (const Error& e) {
      if (e.code() == Code::Aborted || e.code() == Code::Mismatch) protocol->end(e.what());
      if (!is_idle()) failed = e;
      throw;
    }
  }
  /// The protocol, for a call of the step. Throws the error of an exchange that has failed, in this step or an
  /// earlier one. Otherwise the protocol would refuse the call as a mistake of the caller.
  StepProtocol& calls() {
    if (failed) throw *failed;
    memory.waits().require_sound();
    return *protocol;
  }

  /// A call that a schedule decides: signals the next of the unit's nodes of this kind.
  void scheduled(StepProtocol::UnitCallKind kind, std::int32_t unit) {
    require_unit(unit);
    calls().scheduled({kind, unit});
    PassRunner& pass = now();
    exchanging([&] {
      // An engine that has read no parameter, or added no gradient, has not waited for the room of later exchanges.
      if (kind == StepProtocol::UnitCallKind::Reshard) pass.begin_use(unit);
      if (kind == StepProtocol::UnitCallKind::Reduce) (void)pass.begin_gradients(unit);
      pass.signal_next(kind, unit);
    });
  }
  const UnitUses& uses() const noexcept { return protocol->kind() == PassKind::ForwardOnly ? evaluation : training; }
  /// Makes calls of the schedule until so many were made in this pass.
  void make_calls(std::size_t until) {
    while (protocol->scheduled_calls() < until) {
      const StepProtocol::UnitCall call = uses().calls()[protocol->scheduled_calls()];
      scheduled(call.kind, call.unit);
    }
  }
  void wait_for_value(std::int32_t parameter) {
    if (is_scheduled()) exchanging([&] { now().begin_use(unit_of[at(parameter)]); });
  }
  void wait_for_gradient(std::int32_t parameter) {
    if (!is_scheduled() || protocol->is_summed()) return;
    if (exchanging([&] { return now().begin_gradients(unit_of[at(parameter)]); })) return;
    const DataParameter& p = parameters[at(parameter)];
    throw Error(Code::InvalidArgument,
                fmt::format("gradient of '{}': '{}' was reduced for the last time in this step", p.path, p.unit));
  }

  /// Plans the memory of a step. Called before the first step, and again at the first no_sync(), from which on
  /// gradients are added up.
  void plan_memory(bool accumulates) {
    accumulated = accumulates;
    memory.keep_to(parallel::plan_memory(parameters, row, options, mesh->shape(),
                                         {.accumulates = accumulates, .index = memory.index()}));
  }

  void run(const StepPlan& plan) {
    memory.place_gradients(plan.groups);
    gradient_room = room_for_gradients();
    synced.emplace(plan.graph, memory, parameters, units);
    unsynced.emplace(without_sync(plan.graph, parameters.size(), sharded.parameter == Held::Sharded), memory,
                     parameters, units);
    forward.emplace(forward_graph(plan), memory, parameters, units);
  }

  /// Plans the step again, after the first step: with buckets in the order in which rank 0 reported its gradients.
  void rebuild(std::vector<std::int32_t> reported) {
    rebuilds = false;
    memory.waits().settle();  // their memory is laid out anew
    memory.take_from_first(reported);
    run(plan_step(parameters, row, options.step, reported));
    order = std::move(reported);
  }

  /// The bytes that whole gradients may take while they wait to be scattered. The default is twice the largest bucket:
  /// the engine writes one while another is in flight. 0: there is no limit.
  std::size_t room_for_gradients() const {
    if (!shards_gradients() || sharded.parameter == Held::Sharded || is_scheduled()) return 0;
    if (options.step.gathered_bytes > 0) return static_cast<std::size_t>(options.step.gathered_bytes);
    std::int64_t largest = 0;
    for (std::int32_t p = 0; p < std::ssize(parameters); ++p) largest = std::max(largest, memory.gradient_bytes(p));
    return static_cast<std::size_t>(2 * largest);
  }

  /// Called before a whole gradient is allocated. Waits for exchanges in flight until there is room for the gradient,
  /// or until none is in flight.
  void make_room_for_gradient(std::int32_t parameter) {
    if (gradient_room == 0 || memory.has_gradient(parameter)) return;
    const auto bytes = static_cast<std::size_t>(memory.gradient_bytes(parameter));
    exchanging([&] {
      while (memory.held().of(Purpose::Underway) + bytes > gradient_room && now().runner.finish_one()) {
      }
    });
  }

  /// Reports the gradients of the parameters `of` that the engine did not report. They keep their values.
  void report_unused(PassRunner& pass, const std::vector<std::int32_t>& of) {
    for (const std::int32_t p : of) {
      const std::int32_t signal = pass.gradients[at(p)];
      if (pass.runner.is_complete(signal)) continue;
      (void)memory.gradient(p);
      while (!pass.runner.is_complete(signal)) pass.runner.signal(signal);
    }
  }
};

DataParallel::DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, std::span<const ConstBuffer> values,
                           const DataRow& row, Allocate allocate, const DataParallelOptions& options,
                           const std::source_location& where)
    : DataParallel(mesh, std::move(parameters), Start{values, parts_of_whole(values)}, row, std::move(allocate),
                   options, where) {}

DataParallel::DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const InitialValues& initial,
                           const DataRow& row, Allocate allocate, const DataParallelOptions& options,
                           const std::source_location& where)
    : DataParallel(mesh, std::move(parameters), Start{{}, initial}, row, std::move(allocate), options, where) {}

DataParallel::DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const Start& start, const DataRow& row,
                           Allocate allocate, const DataParallelOptions& options, const std::source_location& where) {
  const CallOptions call{.label = "data parallelism", .where = where};
  std::vector<std::string> axes;
  for (const DataAxis& a : row.axes) axes.push_back(a.axis);
  StepPlan plan;
  std::optional<Error> fault;
  try {
    parameters = complete_parameters(std::move(parameters));
    plan = plan_step(parameters, row, options.step);
    require_sound(parameters, row, options, start.values);
    require_groups(mesh, axes, plan.graph);
    require_spread(mesh, parameters);
  } catch (const Error& e) {
    fault = e;
  }
  require_no_fault(mesh, axes, fault, call);
  require_equal_parameters(mesh, axes, text_of(row, options), parameters, start.values, call);
  Communicator* const ranks = &mesh.along(axes.front());
  const InitialValues initial = [&](const InitialPart& part) {
    const auto doing = [&] { return fmt::format("initial values of '{}'", part.parameter.path); };
    run_user_code(*ranks, doing, [&] { start.initial(part); });
  };
  MemorySources sources = memory_sources(*ranks, allocate, options);
  state_ = std::make_unique<State>(mesh, std::move(parameters), row, std::move(sources), options, where);
  state_->memory.make_groups(plan.graph);
  state_->memory.place_values(plan.groups, initial);
  state_->begin_protocol();
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
  state_->calls().before_forward(unit);
  PassRunner& pass = state_->now();
  state_->exchanging([&] { pass.gate(pass.by_unit[at(unit)].before_forward); });
}
void DataParallel::after_forward(std::int32_t unit) {
  state_->require_unit(unit);
  state_->calls().after_forward(unit);
  PassRunner& pass = state_->now();
  state_->exchanging([&] { pass.signal(pass.by_unit[at(unit)].after_forward); });
}
void DataParallel::before_backward(std::int32_t unit) {
  state_->require_unit(unit);
  state_->calls().before_backward(unit);
  PassRunner& pass = state_->now();
  state_->exchanging([&] { pass.gate(pass.by_unit[at(unit)].before_backward); });
}
void DataParallel::after_backward(std::int32_t unit) {
  state_->require_unit(unit);
  state_->calls().after_backward(unit);
  PassRunner& pass = state_->now();
  state_->exchanging([&] {
    // Exchanges start in the order of the graph. Those of the next units would wait for this unit's gradients.
    if (state_->options.unused_are_zero && state_->sharded.parameter == Held::Sharded)
      state_->report_unused(pass, state_->members[at(unit)]);
    pass.signal(pass.by_unit[at(unit)].after_backward);
  });
}

void DataParallel::unshard(std::int32_t unit) { state_->scheduled(StepProtocol::UnitCallKind::Unshard, unit); }
void DataParallel::reshard(std::int32_t unit) { state_->scheduled(StepProtocol::UnitCallKind::Reshard, unit); }
void DataParallel::reduce(std::int32_t unit) { state_->scheduled(StepProtocol::UnitCallKind::Reduce, unit); }
void DataParallel::begin_use(std::int32_t unit) {
  state_->require_unit(unit);
  const auto until = state_->uses().before_use(unit, state_->calls().scheduled_calls());
  if (until) return state_->make_calls(*until);
  state_->protocol->refuse(fmt::format("DataParallel::begin_use('{}')", state_->units[at(unit)]),
                           "the schedule does not use this unit next");
}
void DataParallel::end_use(std::int32_t unit) {
  state_->require_unit(unit);
  state_->make_calls(state_->uses().to_reshard(unit, state_->calls().scheduled_calls()));
}

Buffer DataParallel::parameter(std::int32_t parameter) {
  state_->require_parameter(parameter);
  state_->wait_for_value(parameter);
  if (state_->memory.has_value(parameter)) return state_->memory.value(parameter);
  const DataParameter& p = state_->parameters[at(parameter)];
  throw Error(Code::InvalidArgument,
              fmt::format("parameter '{}': only this rank's part of it is here; expected {} of '{}' first", p.path,
                          state_->is_scheduled() ? "unshard" : "before_forward or before_backward", p.unit));
}
Buffer DataParallel::gradient(std::int32_t parameter) {
  state_->require_parameter(parameter);
  if (state_->protocol->is_summed() && state_->shards_gradients()) {
    throw Error(Code::InvalidArgument,
                fmt::format("gradient of '{}': it is summed, and only parts of it are left: those of finish_backward",
                            state_->parameters[at(parameter)].path));
  }
  state_->wait_for_gradient(parameter);
  state_->make_room_for_gradient(parameter);
  return state_->memory.gradient(parameter);
}
void DataParallel::gradient_ready(std::int32_t parameter) {
  state_->require_parameter(parameter);
  state_->calls().gradient_ready(parameter);
  PassRunner& pass = state_->now();
  state_->exchanging([&] { pass.signal(pass.gradients[at(parameter)]); });
}

void DataParallel::finish_forward() {
  state_->calls().finish_forward();
  state_->exchanging([&] { state_->now().runner.finish(); });
}

std::vector<OwnedPart> DataParallel::finish_backward() {
  const bool sums = state_->calls().finish_backward();
  PassRunner& pass = state_->now();
  return state_->exchanging([&]() -> std::vector<OwnedPart> {
    if (state_->options.unused_are_zero) {
      for (const auto& of_unit : state_->members) state_->report_unused(pass, of_unit);
    }
    if (!sums) {
      pass.runner.finish();
      return {};
    }
    pass.gate(pass.optimizer);
    std::vector<OwnedPart> owned = state_->memory.owned();
    for (OwnedPart& part : owned) part.sum = state_->protocol->sums();
    state_->protocol->end_reads();  // the caller may change the owned parts from now on
    return owned;
  });
}

void DataParallel::abandon_step() {
  State& s = *state_;
  std::exception_ptr failed;
  try {
    const PassKind given_up = s.underway();
    s.runner_of(given_up).runner.abandon();
    // Ranks that are ahead may already wait in the sums of the next pass, so this rank takes part in these sums.
    if (given_up == PassKind::Unsynced && s.unsynced->runner.graph().next_exchange() == 0) s.synced->runner.abandon();
  } catch (const Error& e) {
    // Aborted: a rank has ended the groups of the step. agree_or_regroup() below makes new ones.
    if (e.code() != Code::Aborted) failed = std::current_exception();
  } catch (...) {
    failed = std::current_exception();
  }
  s.protocol->abandon();
  s.failed.reset();
  s.memory.abandon();
  if (failed) std::rethrow_exception(failed);
  s.memory.agree_or_regroup(StepMemory::Agreed::Abandon, s.synced->runner.graph());
  s.memory.waits().require_sound();
}

void DataParallel::scale_feedback(double factor) {
  state_->calls().require_between_steps("DataParallel::scale_feedback()");
  if (!std::isfinite(factor) || factor <= 0)
    throw Error(Code::InvalidArgument,
                fmt::format("scale_feedback: a factor of {}, expected a finite number above 0", factor));
  if (factor != 1) state_->memory.scale_residuals(factor);
}

void DataParallel::updated() {
  state_->calls().updated();
  PassRunner& pass = *state_->synced;
  std::vector<std::int32_t> order;
  state_->exchanging([&] {
    pass.signal(pass.updated);
    assert(state_->memory.is_as_planned());
    if (state_->rebuilds) order = state_->synced->order_of_gradients();
    try {
      pass.runner.finish();
    } catch (const Error&) {
      if (pass.runner.idle()) state_->memory.abandon();  // the step has ended: drop its gradients
      throw;
    }
    if (state_->rebuilds) {
      state_->rebuild(std::move(order));
    } else {
      state_->memory.clear_gradients();
    }
  });
}

DataParallel::Scope::Scope(State& of, PassKind kind) : of_(&of), before_(of.protocol->kind()) {
  of.calls().enter(kind);
  if (kind != PassKind::Unsynced || of.accumulated) return;
  of.exchanging([&] { of.memory.waits().settle(); });  // their memory is allocated anew
  of.plan_memory(true);
}
DataParallel::Scope::~Scope() {
  if (of_ != nullptr) of_->protocol->leave(before_);
}
DataParallel::Scope DataParallel::no_sync() { return {*state_, PassKind::Unsynced}; }
DataParallel::Scope DataParallel::forward_only() { return {*state_, PassKind::ForwardOnly}; }

void DataParallel::begin_checkpoint(std::string_view call) {
  state_->calls().require_between_steps(call);
  state_->protocol->end_reads();  // a load changes parameters
  settle();
  state_->exchanging([&] { state_->memory.agree(StepMemory::Agreed::Checkpoint); });
}

void DataParallel::settle() {
  state_->exchanging([&] { state_->memory.waits().settle(); });
}

bool DataParallel::keeps_state() noexcept {
  StreamWaits& waits = state_->memory.waits();
  try {
    waits.settle();
  } catch (const Error&) {  // has_failed() tells whose result it was
  }
  return !waits.has_failed(state_->protocol->is_updating());
}

Communicator& DataParallel::along(Mesh& mesh, std::string_view axes) {
  Communicator* const own = &mesh == state_->mesh ? state_->memory.group_along(axes) : nullptr;
  return own == nullptr ? mesh.along(axes) : *own;
}
const ComputeDevice& DataParallel::device() const noexcept { return state_->options.device; }
const std::vector<DataParameter>& DataParallel::parameters() const noexcept { return state_->parameters; }
Mesh& DataParallel::mesh() const noexcept { return *state_->mesh; }
void DataParallel::require_type(std::int32_t parameter, DType asked, bool is_gradient) const {
  state_->require_parameter(parameter);
  parallel::require_type(state_->parameters[at(parameter)], asked, is_gradient);
}
std::vector<OwnedPart> DataParallel::owned_values() { return state_->memory.owned_values(); }
bool DataParallel::keeps_whole_parameters() const noexcept { return state_->sharded.parameter == Held::Whole; }
const DataRow& DataParallel::row() const noexcept { return state_->row; }
ReduceOp DataParallel::gradient_reduction() const noexcept { return state_->options.gradients; }
const std::string& DataParallel::sharded_axis() const noexcept { return state_->sharded.axis; }
StepProtocol& DataParallel::protocol() noexcept { return *state_->protocol; }
HeldMemory& DataParallel::memory() noexcept { return state_->memory.memory(); }
const HeldBytes& DataParallel::held() const noexcept { return state_->memory.held(); }
const MemoryPlan& DataParallel::planned() const noexcept { return state_->memory.planned(); }
const StepGraph& DataParallel::graph() const noexcept { return state_->synced->runner.graph(); }
std::string DataParallel::explain() {
  const StepPlan plan = plan_step(state_->parameters, state_->row, state_->options.step, state_->order,
                                  predicted_prices(*state_->mesh, state_->memory, state_->options));
  return plan.report.to_string(plan.graph);
}

}  // namespace sinew::parallel
