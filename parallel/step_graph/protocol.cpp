#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {
namespace {

constexpr std::string_view kFinishBackwardCall = "DataParallel::finish_backward()";
constexpr std::string_view kFinishForwardCall = "DataParallel::finish_forward()";
constexpr std::string_view kUpdatedCall = "DataParallel::updated()";
constexpr std::string_view kUpdateCall = "Optimizer::update()";
constexpr std::string_view kRunCall = "PipelineRunner::run()";

std::string_view name_of_scope(PassKind kind) noexcept {
  return kind == PassKind::Unsynced ? "no_sync()" : "forward_only()";
}

}  // namespace

StepProtocol::StepProtocol(Shape shape, std::function<void(const std::string&)> end)
    : shape_(std::move(shape)),
      end_(std::move(end)),
      units_(shape_.units.size(), UnitState::Fresh),
      gradients_of_(shape_.units.size()),
      reports_(shape_.gradients.size()),
      open_(shape_.gradients.size()) {
  for (std::int32_t u = 0; u < std::ssize(shape_.units); ++u) {
    if (!shape_.units[at(u)].is_outer) forward_order_.push_back(u);
  }
  for (std::int32_t g = 0; g < std::ssize(shape_.gradients); ++g)
    gradients_of_[at(shape_.gradients[at(g)].unit)].push_back(g);
  backward_order_.assign(forward_order_.rbegin(), forward_order_.rend());
  for (std::int32_t u = 0; u < std::ssize(shape_.units); ++u) {
    if (!shape_.units[at(u)].is_outer) continue;
    forward_order_.insert(forward_order_.begin(), u);
    backward_order_.insert(backward_order_.begin(), u);
  }
}

std::shared_ptr<StepProtocol::Member> StepProtocol::join_as_optimizer() {
  auto member = std::make_shared<Member>();
  optimizers_.push_back(member);
  return member;
}

std::shared_ptr<StepProtocol::Member> StepProtocol::join_as_pipeline(std::function<void()> end_world, bool forward_only,
                                                                     std::int32_t micro_batches) {
  auto member = std::make_shared<Member>(
      Member{.end_world = std::move(end_world), .forward_only = forward_only, .micro_batches = micro_batches});
  pipelines_.push_back(member);
  return member;
}

void StepProtocol::require_no_schedule(std::string_view call, std::int32_t unit) {
  if (shape_.follows_schedule) refuse(call_of_unit(call, unit), "a schedule decides the calls on units of this step");
}

std::shared_ptr<StepProtocol::Reader> StepProtocol::join_as_reader(Reader end) {
  std::erase_if(readers_, [](const std::weak_ptr<Reader>& reader) { return reader.expired(); });
  auto reader = std::make_shared<Reader>(std::move(end));
  readers_.push_back(reader);
  return reader;
}

void StepProtocol::end_reads() {
  for (const std::weak_ptr<Reader>& reader : readers_) {
    if (const auto alive = reader.lock()) (*alive)();
  }
}

std::int32_t StepProtocol::micro_batches_of_pipeline() const noexcept {
  for (const std::weak_ptr<Member>& pipeline : pipelines_) {
    const auto alive = pipeline.lock();
    if (alive && !alive->forward_only) return alive->micro_batches;
  }
  return 0;
}

void StepProtocol::before_forward(std::int32_t unit) {
  constexpr std::string_view kCall = "before_forward";
  require_pass(kCall, unit, false);
  require_no_schedule(kCall, unit);
  if (!shape_.gathers_units) {
    if (state_ == State::InPass && open_ == 0 && kind_ != PassKind::ForwardOnly)
      refuse(call_of_unit(kCall, unit), "all gradients of this pass were reported");
    return;
  }
  advance(kCall, unit, UnitState::Fresh);
}

void StepProtocol::after_forward(std::int32_t unit) {
  require_pass("after_forward", unit, false);
  require_no_schedule("after_forward", unit);
  if (shape_.gathers_units) advance("after_forward", unit, UnitState::Forward);
}

void StepProtocol::before_backward(std::int32_t unit) {
  require_pass("before_backward", unit, true);
  require_no_schedule("before_backward", unit);
  if (shape_.gathers_units) advance("before_backward", unit, UnitState::ForwardDone);
}

void StepProtocol::after_backward(std::int32_t unit) {
  constexpr std::string_view kCall = "after_backward";
  require_pass(kCall, unit, true);
  require_no_schedule(kCall, unit);
  if (!shape_.gathers_units) return;
  const bool ends = units_[at(unit)] == UnitState::Backward;
  const std::vector<std::int32_t> open = ends ? open_gradients(unit) : std::vector<std::int32_t>{};
  if (!open.empty() && !shape_.unused_are_zero)
    refuse(call_of_unit(kCall, unit), fmt::format("{} of the unit's gradients were not reported", open.size()));
  advance(kCall, unit, UnitState::Backward);
  for (const std::int32_t gradient : open) close(gradient);
}

/// Moves a unit, which must be in the state `from`, to the next state.
void StepProtocol::advance(std::string_view call, std::int32_t unit, UnitState from) {
  UnitState& now = units_[at(unit)];
  if (now > from)
    refuse(call_of_unit(call, unit),
           "it was called in this pass already: what runs twice, or what two units use, belongs to one unit that is "
           "begun before the first use and ended after the last");
  if (now < from) refuse(call_of_unit(call, unit), "a call of this unit was left out");
  const bool begins_forward = from == UnitState::Fresh, begins_backward = from == UnitState::ForwardDone;
  if (begins_forward || begins_backward) {
    const std::vector<std::int32_t>& order = begins_forward ? forward_order_ : backward_order_;
    std::size_t& begun = begins_forward ? forward_begun_ : backward_begun_;
    if (order[begun] != unit)
      refuse(call_of_unit(call, unit),
             "units run forward in the order of their first parameters, and backward the other way");
    ++begun;
  }
  now = static_cast<UnitState>(static_cast<int>(now) + 1);
  begin_pass();
}

void StepProtocol::gradient_ready(std::int32_t gradient) {
  const std::int32_t uses = shape_.gradients[at(gradient)].uses, unit = shape_.gradients[at(gradient)].unit;
  require_pass([&] { return call_of_gradient(gradient); }, true);
  if (shape_.follows_schedule)
    refuse(call_of_gradient(gradient), "gradients of a unit are complete when it is reduced");
  if (reports_[at(gradient)] == uses)
    refuse(call_of_gradient(gradient), fmt::format("this gradient was reported {} of {} times already", uses, uses));
  if (waits_for_pipeline()) refuse(call_of_gradient(gradient), "the pipeline has not run in this pass");
  if (shape_.gathers_units && units_[at(unit)] != UnitState::Backward)
    refuse(call_of_gradient(gradient),
           "gradients of a unit are reported between its before_backward and after_backward");
  if (++reports_[at(gradient)] == uses) --open_;
  begin_pass();
}

void StepProtocol::scheduled(UnitCall call) {
  require_pass([&] { return text_of(call); }, call.kind == UnitCallKind::Reduce);
  if (!shape_.follows_schedule) refuse(text_of(call), "no schedule decides the calls on units of this step");
  if (!waits_for_scheduled() || order()[taken_] != call)
    refuse(text_of(call), "the calls on units come in the order of the schedule");
  ++taken_;
  begin_pass();
  const auto rest = order().begin() + static_cast<std::ptrdiff_t>(taken_);
  if (call.kind != UnitCallKind::Reduce || std::find(rest, order().end(), call) != order().end()) return;
  for (const std::int32_t gradient : gradients_of_[at(call.unit)]) close(gradient);
}

void StepProtocol::close(std::int32_t gradient) noexcept {
  reports_[at(gradient)] = shape_.gradients[at(gradient)].uses;
  --open_;
}

void StepProtocol::run(Member& pipeline) {
  require_pass([] { return std::string(kRunCall); }, false);
  if (pipeline.last == passes_) refuse(kRunCall, "it was called in this pass already");
  if (pipeline.forward_only && kind_ != PassKind::ForwardOnly)
    refuse(kRunCall, "the schedule of this pipeline is forward-only, expected within forward_only()",
           "PipelineRunner::run() of a training schedule");
  if (!pipeline.forward_only && kind_ == PassKind::ForwardOnly)
    refuse(kRunCall, "within forward_only() a pipeline runs a forward-only schedule: forward_only() of passes.hpp",
           "PipelineRunner::run() of a forward-only schedule");
  pipeline.last = passes_;
}

void StepProtocol::finish_forward() {
  require_not_refused();
  if (kind_ != PassKind::ForwardOnly)
    refuse(kFinishForwardCall, "expected within forward_only(); a step ends with updated()");
  require_pass([] { return std::string(kFinishForwardCall); }, false);
  if (shape_.gathers_units && !due_of_units().empty()) refuse(kFinishForwardCall, "not all units are through");
  if (waits_for_scheduled()) refuse(kFinishForwardCall, "calls of the schedule were left out");
  end_pass();
}

bool StepProtocol::finish_backward() {
  require_pass([] { return std::string(kFinishBackwardCall); }, true);
  if (shape_.gathers_units && !due_of_units().empty()) refuse(kFinishBackwardCall, "not all units are through");
  if (waits_for_pipeline()) refuse(kFinishBackwardCall, "the pipeline has not run in this pass");
  if (waits_for_scheduled()) refuse(kFinishBackwardCall, "calls of the schedule were left out");
  if (waits_for_gradients()) {
    std::vector<std::string> missing;
    for (const std::int32_t g : open_gradients()) {
      const Gradient& gradient = shape_.gradients[at(g)];
      missing.push_back(gradient.uses == 1
                            ? fmt::format("'{}'", gradient.path)
                            : fmt::format("'{}' ({} of {} times)", gradient.path, reports_[at(g)], gradient.uses));
    }
    refuse(kFinishBackwardCall, fmt::format("gradients that were not reported: {}", fmt::join(missing, ", ")));
  }
  end_pass();
  added_up_ = true;
  if (kind_ == PassKind::Unsynced) return false;
  state_ = State::Summed;
  ++sums_;
  return true;
}

void StepProtocol::require_summed(std::string_view call) {
  require_not_refused();
  if (state_ != State::Summed) refuse(call, "the gradients of this step have not been summed");
}

void StepProtocol::update(Member& optimizer) {
  require_summed(kUpdateCall);
  if (optimizer.last == sums_) refuse(kUpdateCall, "this optimizer has used the gradients of this step already");
  optimizer.last = sums_;
}

bool StepProtocol::is_updating() const noexcept {
  return is_summed() && std::ranges::any_of(optimizers_, [this](const std::weak_ptr<Member>& optimizer) {
           const std::shared_ptr<Member> member = optimizer.lock();
           return member && member->last == sums_;
         });
}

void StepProtocol::updated() {
  require_not_refused();
  if (state_ == State::Summed && waits_for_optimizer())
    refuse(kUpdatedCall,
           "an optimizer has not used the gradients; abandon_step() ends a step that is to change nothing");
  if (state_ != State::Summed) {
    if (kind_ != PassKind::Whole) refuse(kUpdatedCall, "within no_sync() and forward_only() nothing is updated");
    if (state_ == State::InPass) refuse(kUpdatedCall, "the gradients of this step have not been summed");
    refuse(kUpdatedCall,
           added_up_ ? "the gradients that were added up within no_sync() have not been summed: the last pass of a "
                       "step runs outside of it"
                     : "no step has begun");
  }
  state_ = State::Between;
  added_up_ = false;
}

void StepProtocol::require_between_steps(std::string_view call) {
  require_not_refused();
  if (state_ != State::Between || added_up_) refuse(call, "it belongs between two steps, and this one has not ended");
}

void StepProtocol::enter(PassKind kind) {
  require_not_refused();
  if (state_ != State::Between)
    refuse(fmt::format("DataParallel::{}", name_of_scope(kind)),
           "it was called in the middle of a step, expected between two passes");
  kind_ = kind;
}

void StepProtocol::abandon() noexcept {
  end_pass();
  added_up_ = false;
  refused_.reset();
  ended_.clear();
}

void StepProtocol::refuse(std::string_view call, std::string_view why, std::string_view instead) {
  const std::string what = instead.empty() ? due() : std::string(instead);
  refused_.emplace(Code::InvalidArgument, fmt::format("{} was called, but {} is due: {}", call, what, why));
  try {
    throw *refused_;
  } catch (const Error& e) {
    end(e.what());
    throw;
  }
}

void StepProtocol::end(const std::string& why) noexcept {
  if (ended_.empty()) ended_ = why;
  for (const std::weak_ptr<Member>& pipeline : pipelines_) {
    if (const auto alive = pipeline.lock()) alive->end_world();
  }
  try {
    end_(why);
  } catch (const Error&) {  // the World had already ended on all ranks
  }
}

void StepProtocol::require_not_refused() const {
  if (refused_) throw *refused_;
}

void StepProtocol::require_pass(std::string_view call, std::int32_t unit, bool is_backward) {
  require_pass([&] { return call_of_unit(call, unit); }, is_backward);
}

/// call: a function that makes the text of the call. It runs for an error only.
template <class Text>
void StepProtocol::require_pass(const Text& call, bool is_backward) {
  require_not_refused();
  if (state_ == State::Summed) refuse(call(), "the gradients of this step are summed, and the step has not ended");
  if (state_ == State::InPass && begun_ != kind_)
    refuse(call(), fmt::format("{} ended in the middle of a pass", name_of_scope(begun_)));
  if (is_backward && kind_ == PassKind::ForwardOnly) refuse(call(), "within forward_only() there is no backward pass");
}

void StepProtocol::begin_pass() noexcept {
  if (state_ == State::InPass) return;
  state_ = State::InPass;
  begun_ = kind_;
}

void StepProtocol::end_pass() noexcept {
  state_ = State::Between;
  std::ranges::fill(units_, UnitState::Fresh);
  std::ranges::fill(reports_, 0);
  forward_begun_ = backward_begun_ = taken_ = 0;
  open_ = reports_.size();
  ++passes_;
}

bool StepProtocol::waits_for_pipeline() const noexcept {
  return kind_ != PassKind::ForwardOnly &&
         std::ranges::any_of(pipelines_, [this](const std::weak_ptr<Member>& pipeline) {
           const auto alive = pipeline.lock();
           return alive && !alive->forward_only && alive->last != passes_;
         });
}

/// Returns whether an optimizer has not used the gradients yet. An optimizer that was never called is ignored if
/// another one has used them: it may have no parts on this rank.
bool StepProtocol::waits_for_optimizer() const noexcept {
  bool waits = false, is_new = false, is_one_through = false;
  for (const std::weak_ptr<Member>& optimizer : optimizers_) {
    const auto alive = optimizer.lock();
    if (!alive) continue;
    is_one_through = is_one_through || alive->last == sums_;
    is_new = is_new || alive->last == 0;
    waits = waits || (alive->last != 0 && alive->last != sums_);
  }
  return shape_.owns_parts && (waits || (is_new && !is_one_through));
}

std::string StepProtocol::call_of_unit(std::string_view call, std::int32_t unit) const {
  return fmt::format("DataParallel::{}('{}')", call, shape_.units[at(unit)].name);
}

std::string StepProtocol::call_of_gradient(std::int32_t gradient) const {
  return fmt::format("DataParallel::gradient_ready('{}')", shape_.gradients[at(gradient)].path);
}

std::string StepProtocol::text_of(UnitCall call) const {
  constexpr std::array<std::string_view, 3> kNames{"unshard", "reshard", "reduce"};
  return call_of_unit(kNames[static_cast<std::size_t>(call.kind)], call.unit);
}

std::vector<std::int32_t> StepProtocol::open_gradients(std::int32_t unit) const {
  std::vector<std::int32_t> open;
  for (const std::int32_t g : gradients_of_[at(unit)]) {
    if (reports_[at(g)] < shape_.gradients[at(g)].uses) open.push_back(g);
  }
  return open;
}

std::vector<std::int32_t> StepProtocol::open_gradients() const {
  std::vector<std::int32_t> open;
  for (std::int32_t g = 0; g < std::ssize(shape_.gradients); ++g) {
    if (reports_[at(g)] < shape_.gradients[at(g)].uses) open.push_back(g);
  }
  return open;
}

std::string StepProtocol::due() const {
  if (state_ == State::InPass && begun_ != kind_) return "DataParallel::abandon_step()";
  if (state_ == State::Summed) return std::string(waits_for_optimizer() ? kUpdateCall : kUpdatedCall);
  if (shape_.gathers_units) {
    if (std::string of_units = due_of_units(); !of_units.empty()) return of_units;
  }
  if (waits_for_pipeline()) return std::string(kRunCall);
  if (waits_for_scheduled()) return text_of(order()[taken_]);
  if (kind_ == PassKind::ForwardOnly) return std::string(kFinishForwardCall);
  return waits_for_gradients() ? call_of_gradient(open_gradients().front()) : std::string(kFinishBackwardCall);
}

std::string StepProtocol::due_of_units() const {
  const auto last_in = [this](UnitState state, const std::vector<std::int32_t>& order, std::size_t begun) {
    while (begun > 0 && units_[at(order[begun - 1])] != state) --begun;
    return begun == 0 ? -1 : order[begun - 1];
  };
  const auto is_outer = [this](std::int32_t unit) { return shape_.units[at(unit)].is_outer; };
  const std::int32_t forward = last_in(UnitState::Forward, forward_order_, forward_begun_);
  if (forward >= 0 && !is_outer(forward)) return call_of_unit("after_forward", forward);
  if (forward_begun_ < forward_order_.size()) return call_of_unit("before_forward", forward_order_[forward_begun_]);
  if (forward >= 0) return call_of_unit("after_forward", forward);
  if (kind_ == PassKind::ForwardOnly) return {};
  const std::int32_t backward = last_in(UnitState::Backward, backward_order_, backward_begun_);
  if (backward >= 0 && !is_outer(backward)) return due_in_backward(backward);
  if (backward_begun_ < backward_order_.size())
    return call_of_unit("before_backward", backward_order_[backward_begun_]);
  return backward >= 0 ? due_in_backward(backward) : std::string();
}

std::string StepProtocol::due_in_backward(std::int32_t unit) const {
  if (waits_for_pipeline()) return std::string(kRunCall);
  const std::vector<std::int32_t> open = shape_.unused_are_zero ? std::vector<std::int32_t>{} : open_gradients(unit);
  return open.empty() ? call_of_unit("after_backward", unit) : call_of_gradient(open.front());
}

}  // namespace sinew::parallel
