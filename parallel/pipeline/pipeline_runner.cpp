#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Says why so many ranks cannot run the schedule. Empty: they can.
std::string fault_of(const PipelineSchedule& schedule, int ranks) {
  if (schedule.ranks() != ranks)
    return fmt::format("'{}' is of {} ranks, expected {}, those of the group", schedule.name, schedule.ranks(), ranks);
  const PipelineVerdict verdict = prove(schedule, {.most_under_way = kMessagePlaces});
  return verdict ? "" : fmt::format("'{}' is not proved: {}", schedule.name, verdict.reason);
}

/// A rank that stops here, or has another schedule, would leave the others waiting for its messages.
PipelineSchedule agreed(CallGroup ranks, PipelineSchedule schedule) {
  const int size = GroupPlace(ranks).ranks;
  const std::string fault = fault_of(schedule, size);
  if (size > 1)
    require_equal_on_all(ranks, "pipeline: schedule",
                         fault.empty() ? fmt::format("{} stages, {} micro-batches, actions {:016x}", schedule.stages(),
                                                     schedule.micro_batches, hash_of(to_csv(schedule)))
                                       : fault,
                         ranks.options("the schedule of a pipeline"));
  if (!fault.empty()) throw Error(Code::InvalidArgument, "pipeline: schedule " + fault);
  return schedule;
}

std::size_t held_by(const PipelineStep& step, const std::vector<std::int64_t>& bytes) {
  std::int64_t held = 0;
  for (const auto& [kind, count] : step.places) held += count * bytes[static_cast<std::size_t>(kind.stage)];
  return static_cast<std::size_t>(held);
}

[[noreturn]] void refuse_to_split(const char* part, std::int32_t stage) {
  throw Error(
      Code::InvalidArgument,
      fmt::format("pipeline: the schedule has {} of stage {} apart, which the engine does not implement; expected "
                  "an engine with input_gradient() and weight_gradient(), or a schedule such as 1f1b",
                  part, stage));
}

}  // namespace

std::size_t StageEngine::input_gradient(std::int32_t stage, std::int32_t /*micro_batch*/, ConstBuffer /*dout*/,
                                        Buffer /*din*/) {
  refuse_to_split("the input gradient", stage);
}
void StageEngine::weight_gradient(std::int32_t stage, std::int32_t /*micro_batch*/) {
  refuse_to_split("the weight gradient", stage);
}

PipelineRunner::PipelineRunner(CallGroup ranks, PipelineSchedule schedule, StageEngine& engine,
                               const std::vector<StepProtocol*>& steps)
    : ranks_(ranks),
      schedule_(agreed(ranks, std::move(schedule))),
      engine_(&engine),
      bytes_(agree_on_bytes()),
      step_(step_of(schedule_, rank(), bytes_)),
      taken_(step_.tensors.size()),
      held_(held_by(step_, bytes_)),
      runner_(std::make_unique<StepRunner>(step_.graph, static_cast<StepActions&>(*this))) {
  for (const auto& [kind, count] : step_.places) {
    labels_[kind] = fmt::format("{} of stage {}", kind.gradient ? "gradient of the input" : "input", kind.stage);
    idle_[kind].resize(static_cast<std::size_t>(count),
                       std::vector<std::byte>(static_cast<std::size_t>(bytes_[static_cast<std::size_t>(kind.stage)])));
  }
  std::unordered_map<std::string_view, Numbers> by_name;
  for (std::size_t i = 0; i < runner_->graph().nodes.size(); ++i) {
    const Node& node = runner_->graph().nodes[i];
    if (node.kind == NodeKind::Gate) by_name[node.name].gate = static_cast<std::int32_t>(i);
    if (node.kind == NodeKind::Signal) by_name[node.name].signal = static_cast<std::int32_t>(i);
  }
  for (const Action& action : schedule_.actions[static_cast<std::size_t>(rank())]) {
    const bool is_in_graph = action.kind == ActionKind::Forward || action.kind == ActionKind::Backward ||
                             action.kind == ActionKind::InputGradient;
    numbers_.push_back(is_in_graph ? by_name.at(to_string(action)) : Numbers{});
  }
  for (StepProtocol* step : steps)
    steps_.push_back({step, step->join_as_pipeline([this] { ranks_->abort_world_by_exception({}); },
                                                   schedule_.forward_only, schedule_.micro_batches)});
}

std::size_t PipelineRunner::held_for(const PipelineSchedule& schedule, std::int32_t rank,
                                     const std::vector<std::int64_t>& bytes) {
  return held_by(step_of(schedule, rank, bytes), bytes);
}

PipelineRunner::~PipelineRunner() = default;

std::int32_t PipelineRunner::rank() const noexcept { return GroupPlace(*ranks_).rank; }

/// Returns the input size of each stage in bytes. The rank of the stage before knows it, and all ranks exchange it.
std::vector<std::int64_t> PipelineRunner::agree_on_bytes() {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(schedule_.stages()));
  for (std::int32_t s = 0; s + 1 < schedule_.stages(); ++s) {
    if (rank_of(schedule_, s) != rank()) continue;
    const std::size_t made = run_user_code(
        *ranks_, [&] { return fmt::format("output bytes of stage {}", s); }, [&] { return engine_->output_bytes(s); });
    bytes[static_cast<std::size_t>(s) + 1] = static_cast<std::int64_t>(std::min<std::size_t>(made, kMostBytes + 1));
  }
  if (schedule_.ranks() > 1)
    ranks_->all_reduce(bytes, ReduceOp::Max, ranks_.options("what stages of a pipeline hand on")).get();
  for (std::size_t s = 1; s < bytes.size(); ++s) {
    if (bytes[s] > kMostBytes)
      throw Error(Code::InvalidArgument,
                  fmt::format("pipeline: stage {} hands on more than {} bytes, expected no more", s - 1, kMostBytes));
  }
  return bytes;
}

Buffer PipelineRunner::place(std::int32_t stage, std::int32_t micro_batch, bool gradient) {
  if (stage < 1 || stage >= schedule_.stages()) return {};
  if (bytes_[static_cast<std::size_t>(stage)] == 0) return {};  // a rank without rows: nothing takes a place
  std::vector<std::byte>& buffer = taken_[static_cast<std::size_t>(step_.numbers.at({stage, micro_batch, gradient}))];
  if (buffer.empty()) {
    auto& idle = idle_[{stage, gradient}];
    if (idle.empty())
      throw std::logic_error(fmt::format("pipeline: there is no place for the {} of stage {}, micro-batch {}",
                                         gradient ? "gradient of the input" : "input", stage, micro_batch));
    buffer = std::move(idle.back());
    idle.pop_back();
  }
  return {buffer.data(), buffer.size()};
}

Work PipelineRunner::start(const Node& exchange) {
  const BoundaryTensor& t = step_.tensors[static_cast<std::size_t>(exchange.tensors.front())];
  const Buffer buffer = place(t.stage, t.micro_batch, t.gradient);
  const auto tag = static_cast<std::uint32_t>(exchange.match);
  const CallOptions options = ranks_.options(labels_.at({t.stage, t.gradient}).c_str());
  if (exchange.kind == NodeKind::Send) return ranks_->send(ConstBuffer(buffer), exchange.peer, tag, options);
  return ranks_->recv(buffer, exchange.peer, tag, options);
}

void PipelineRunner::free(const Node& node) {
  for (const TensorId t : node.tensors) {
    const BoundaryTensor& tensor = step_.tensors[static_cast<std::size_t>(t)];
    std::vector<std::byte>& buffer = taken_[static_cast<std::size_t>(t)];
    if (!buffer.empty()) idle_[{tensor.stage, tensor.gradient}].push_back(std::exchange(buffer, {}));
  }
}

std::size_t PipelineRunner::call(const Action& action, ConstBuffer in, Buffer out) {
  switch (action.kind) {
    case ActionKind::Forward: return engine_->forward(action.stage, action.micro_batch, in, out);
    case ActionKind::Backward: return engine_->backward(action.stage, action.micro_batch, in, out);
    default: return engine_->input_gradient(action.stage, action.micro_batch, in, out);
  }
}

void PipelineRunner::compute(std::size_t number, std::int32_t read_stage, std::int32_t made_stage, bool gradient) {
  const Action& action = schedule_.actions[static_cast<std::size_t>(rank())][number];
  auto begin = Clock::now();
  runner_->gate(numbers_[number].gate);
  waited_s_ += seconds_since(begin);
  const ConstBuffer in(place(read_stage, action.micro_batch, gradient));
  const Buffer out = place(made_stage, action.micro_batch, gradient);
  begin = Clock::now();
  const std::size_t made = call(action, in, out);
  computed_s_ += seconds_since(begin);
  if (made != out.bytes)
    throw Error(Code::InvalidArgument,
                fmt::format("pipeline: {} of stage {} for micro-batch {} on {} has made {} bytes, expected {}",
                            gradient ? "the gradient" : "the output", action.stage, action.micro_batch,
                            ranks_->rank_text(rank()), made, out.bytes));
  runner_->signal(numbers_[number].signal);
}

void PipelineRunner::take(std::size_t number) {
  const Action& action = schedule_.actions[static_cast<std::size_t>(rank())][number];
  const auto begin = Clock::now();
  switch (action.kind) {
    case ActionKind::Forward: return compute(number, action.stage, action.stage + 1, false);
    case ActionKind::Backward:
    case ActionKind::InputGradient: return compute(number, action.stage + 1, action.stage, true);
    case ActionKind::WeightGradient: engine_->weight_gradient(action.stage, action.micro_batch); break;
    case ActionKind::Recompute: engine_->recompute(action.stage, action.micro_batch); break;
    case ActionKind::Unshard: return engine_->unshard(action.stage);
    case ActionKind::Reshard: return engine_->reshard(action.stage);
    case ActionKind::Reduce: return engine_->reduce(action.stage);
    case ActionKind::SendActivation:
    case ActionKind::ReceiveActivation:
    case ActionKind::SendGradient:
    case ActionKind::ReceiveGradient: return;  // the graph's
  }
  computed_s_ += seconds_since(begin);
}

void PipelineRunner::begin_run() {
  if (is_running_)
    throw Error(Code::InvalidArgument,
                "PipelineRunner::run() was called by a stage of the pipeline that runs, but the stage's return is due");
  for (const Membership& each : steps_) each.step->run(*each.member);
  is_running_ = true;
}

void PipelineRunner::run() {
  if (failed_) std::rethrow_exception(failed_);
  const std::vector<Action>& actions = schedule_.actions[static_cast<std::size_t>(rank())];
  std::size_t number = 0;
  const auto doing = [&] { return "pipeline, " + (number < actions.size() ? text_of(actions[number]) : "its end"); };
  // If a run ends early, other ranks wait for its messages and for its stages' calls, and this rank's pending messages
  // still use buffers of this object.
  try {
    run_user_code(*ranks_, doing, [&] {
      begin_run();
      for (; number < actions.size(); ++number) take(number);
      const auto begin = Clock::now();
      runner_->finish();
      waited_s_ += seconds_since(begin);
    });
    is_running_ = false;
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
}

std::string PipelineRunner::text_of(const Action& action) {
  const auto of_micro_batch = [&](std::string_view what) {
    return fmt::format("{} of stage {} for micro-batch {}", what, action.stage, action.micro_batch);
  };
  switch (action.kind) {
    case ActionKind::Forward: return of_micro_batch("forward");
    case ActionKind::Backward: return of_micro_batch("backward");
    case ActionKind::InputGradient: return of_micro_batch("input_gradient");
    case ActionKind::WeightGradient: return of_micro_batch("weight_gradient");
    case ActionKind::Recompute: return of_micro_batch("recompute");
    case ActionKind::Unshard: return fmt::format("unshard of stage {}", action.stage);
    case ActionKind::Reshard: return fmt::format("reshard of stage {}", action.stage);
    case ActionKind::Reduce: return fmt::format("reduce of stage {}", action.stage);
    case ActionKind::SendActivation:
    case ActionKind::ReceiveActivation:
    case ActionKind::SendGradient:
    case ActionKind::ReceiveGradient: return to_string(action);
  }
  return {};
}

}  // namespace sinew::parallel
