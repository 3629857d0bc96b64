#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/pipeline/pipeline_step.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

namespace sinew::parallel {

/// What a pipeline runs: the engine's stages, those that this rank has.
/// Shape: in, and the gradient din of it: what the stage before makes; empty for the first. out, and dout: what this
///        one makes; empty for the last.
/// Lifetime of buffers: of the call.
class StageEngine {
 public:
  virtual ~StageEngine() = default;

  /// Bytes of what a stage hands on for a micro-batch; 0 for the last one.
  virtual std::size_t output_bytes(std::int32_t stage) const = 0;

  /// Returns the bytes that it has written: output_bytes(stage).
  virtual std::size_t forward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer in, Buffer out) = 0;
  /// Returns the bytes that it has written: those of the stage before.
  virtual std::size_t backward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) = 0;
  /// The same in two parts, for schedules that have them apart.
  virtual std::size_t input_gradient(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) = 0;
  virtual void weight_gradient(std::int32_t stage, std::int32_t micro_batch) = 0;
  /// Activations once more, before backward; engines that do it there need nothing here.
  virtual void recompute(std::int32_t /*stage*/, std::int32_t /*micro_batch*/) {}
  /// Of a stage's parameters, where the schedule says when.
  virtual void unshard(std::int32_t /*stage*/) {}
  virtual void reshard(std::int32_t /*stage*/) {}
  virtual void reduce(std::int32_t /*stage*/) {}
};

/// A pipeline over the ranks of a communicator: each takes its actions of a schedule that was proved, step by step.
/// Messages are on their way while the engine computes.
/// Thread:   the World's. With Threads::Multiple messages go on between calls.
/// steps: of the DataParallels whose passes the stages make (DataParallel::protocol). run() then has its place in each
///         of their passes: it is due before gradients are reported, and once. Whatever ends the pipeline or one of the
///         steps ends the others.
/// Lifetime: ends before ranks, engine and steps.
/// Errors:   when it is made, on all ranks, InvalidArgument: for a schedule that does not pass prove(), with its reason
///           or cycle, for one of another number of ranks, for schedules that differ, and for a stage that hands on
///           more than 2^40 bytes. From run() InvalidArgument for a stage that has written other bytes than it said,
///           naming stage, micro-batch and rank; for a call of a stage of its own, or one that is not due; as send and
///           recv.
///           If a stage throws, or run() fails for another reason, or a StepProtocol of `steps` refuses a call, the
///           World of `ranks` ends on all its ranks (Communicator::abort_world_by_exception). Its text has the action
///           and the text of the exception. run() throws the exception itself, and so does every later run() here.
class SINEW_API PipelineRunner final : private StepActions {
 public:
  PipelineRunner(CallGroup ranks, PipelineSchedule schedule, StageEngine& engine,
                 const std::vector<StepProtocol*>& steps = {});
  ~PipelineRunner() override;

  void run();

  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  /// Held for what goes between stages.
  std::size_t held_bytes() const noexcept { return held_; }
  /// The same of a rank, before there is one. bytes: as step_of.
  static std::size_t held_for(const PipelineSchedule& schedule, std::int32_t rank,
                              const std::vector<std::int64_t>& bytes);
  /// Since it was made: time in which this rank computed, and in which it waited for others.
  double computed_s() const noexcept { return computed_s_; }
  double waited_s() const noexcept { return waited_s_; }

 private:
  Work start(const Node& exchange) override;
  void free(const Node& node) override;

  std::int32_t rank() const noexcept;
  std::vector<std::int64_t> agree_on_bytes();
  void take(std::size_t number);
  /// The buffer of a boundary; empty where there is none.
  Buffer place(std::int32_t stage, std::int32_t micro_batch, bool gradient);
  void compute(std::size_t number, std::int32_t read_stage, std::int32_t made_stage, bool gradient);
  std::size_t call(const Action& action, ConstBuffer in, Buffer out);
  void begin_run();
  /// Describes an action for an error: "forward of stage 1 for micro-batch 2".
  static std::string text_of(const Action& action);

  CallGroup ranks_;
  PipelineSchedule schedule_;
  StageEngine* engine_;
  std::vector<std::int64_t> bytes_;
  PipelineStep step_;
  struct Numbers {
    std::int32_t gate = -1, signal = -1;
  };
  std::vector<Numbers> numbers_;                                     // of the graph's nodes, by action
  std::map<MessageKind, std::vector<std::vector<std::byte>>> idle_;  // places
  std::vector<std::vector<std::byte>> taken_;                        // by tensor
  std::map<MessageKind, std::string> labels_;                        // CallOptions::label of messages
  std::size_t held_ = 0;
  double computed_s_ = 0, waited_s_ = 0;
  bool is_running_ = false;
  std::exception_ptr failed_;
  struct Membership {
    StepProtocol* step;
    std::shared_ptr<StepProtocol::Member> member;
  };
  std::vector<Membership> steps_;
  std::unique_ptr<StepRunner> runner_;
};

}  // namespace sinew::parallel
