#pragma once

// Runs a pipeline. The room turns a rank's part of a schedule into a step graph, and runs it with the engine's stages.
// It may include its sub-rooms, the mesh and the step graph. Its sub-rooms do not include it.

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

/// The stages of a pipeline that this rank has. The engine implements them.
/// Shape:    `in` is the output of the previous stage, and `din` its gradient; both are empty for the first stage.
///           `out` is the output of this stage, and `dout` its gradient; both are empty for the last stage.
/// Lifetime: buffers are valid during the call.
class SINEW_API StageEngine {
 public:
  virtual ~StageEngine() = default;

  /// Bytes that a stage hands on for a microbatch. 0 for the last stage.
  virtual std::size_t output_bytes(std::int32_t stage) const = 0;

  /// Returns the number of bytes that it has written, which is output_bytes(stage).
  virtual std::size_t forward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer in, Buffer out) = 0;
  /// Returns the number of bytes that it has written, which is output_bytes of the previous stage.
  virtual std::size_t backward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) = 0;
  /// input_gradient() and weight_gradient() are the two parts of backward(), for schedules that have them apart. Only
  /// such a schedule calls them.
  /// Errors: InvalidArgument if the engine does not override them.
  virtual std::size_t input_gradient(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din);
  virtual void weight_gradient(std::int32_t stage, std::int32_t micro_batch);
  /// Makes activations again, before backward. An engine that does this in backward() need not override it.
  virtual void recompute(std::int32_t /*stage*/, std::int32_t /*micro_batch*/) {}
  /// unshard(), reshard() and reduce() act on the parameters of a stage, when the schedule says so.
  virtual void unshard(std::int32_t /*stage*/) {}
  virtual void reshard(std::int32_t /*stage*/) {}
  virtual void reduce(std::int32_t /*stage*/) {}
};

/// Runs a pipeline over the ranks of a communicator. Each rank takes its actions of a schedule that was proved.
/// Messages are sent and received while the engine computes.
/// `steps`: the protocols of all DataParallels whose passes the stages make (DataParallel::protocol). In each pass of
/// such a step, run() must be called once, before gradients are reported. A runner with a forward-only schedule
/// (forward_only() of passes.hpp) runs within DataParallel::forward_only() instead, and calls forward() of the stages,
/// and unshard() and reshard() if the schedule has these. Several runners may share ranks and stages. If the pipeline
/// or one of the steps ends, the others end too.
/// Thread:   the World's. With Threads::Multiple messages go on between calls.
/// Lifetime: ends before ranks, engine and steps.
/// Errors:   the constructor throws InvalidArgument on all ranks if prove() refuses the schedule; the text has the
///           reason or the cycle. The constructor also throws if the schedule has another number of ranks, if schedules
///           differ between ranks, or if a stage hands on more than 2^40 bytes. A stage that returns another number of
///           bytes than output_bytes() says makes run() throw InvalidArgument, with stage, microbatch and rank. If a
///           stage calls run(), or if run() is not due, run() throws InvalidArgument. Otherwise as send and recv. If a
///           stage throws, the World of `ranks` ends on all its ranks (Communicator::abort_world_by_exception). The
///           World also ends if run() fails for another reason, or if a StepProtocol of `steps` refuses a call. The
///           error of the other ranks names the action, and has the text of the exception. On this rank, run() throws
///           the exception itself, and so does every later run().
class SINEW_API PipelineRunner final : private StepActions {
 public:
  PipelineRunner(CallGroup ranks, PipelineSchedule schedule, StageEngine& engine,
                 const std::vector<StepProtocol*>& steps = {});
  ~PipelineRunner() override;

  void run();

  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  /// Bytes held for data between stages.
  std::size_t held_bytes() const noexcept { return held_; }
  /// Lists the messages of this rank that the optimizer of exchanges moved (ExchangeReport::to_string).
  std::string explain() const { return step_.report.to_string(step_.graph); }
  /// The held_bytes() of a rank, computed without a runner. bytes: the size of each stage's input. The first stage has
  /// none, so bytes[0] is 0.
  static std::size_t held_for(const PipelineSchedule& schedule, std::int32_t rank,
                              const std::vector<std::int64_t>& bytes);
  /// The time since construction in which this rank computed, and the time in which it waited for other ranks.
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
