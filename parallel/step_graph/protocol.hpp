#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>

namespace sinew::parallel {

/// The kinds of passes of a step: everything, adding gradients up only, or the forward half only.
enum class PassKind : std::uint8_t { Whole, Unsynced, ForwardOnly };

/// The order of the calls of a training step, on one rank. Every object that has a call in the step asks here before
/// the call does anything: DataParallel, Optimizer, PipelineRunner, gradient_norm, and the parts of checkpoints.
///
///     between steps  --before_forward, run, gradient_ready ...-->  in a pass  --finish_backward-->  summed
///     summed         --Optimizer::update-->  summed  --updated-->  between steps
///
/// Under no_sync() finish_backward leads back to "between steps". Under forward_only() finish_forward does. If units
/// are gathered, units begin in one order. Each unit then has the four calls before_forward, after_forward,
/// before_backward and after_backward once in a pass. Otherwise an engine may leave these four calls out. If a schedule
/// decides the order, units have the calls unshard, reshard and reduce in this order instead. No gradient is reported
/// then.
/// Thread: the World's.
/// Errors: a call that is not due is refused with InvalidArgument, which names the call that was made and the one that
///         is due. The call does nothing. The communicators of the step end on all their ranks, with this text and this
///         rank's number, so that no rank waits for another order of calls. Every later call throws the same error
///         until abandon().
/// Cost:   a few memory accesses for each call.
class SINEW_API StepProtocol {
 public:
  /// A unit of the model, which runs as one.
  struct Unit {
    std::string name{};
    bool is_outer = false;  ///< begins before all other units, forward and backward
  };
  /// A parameter's gradient.
  struct Gradient {
    std::string path{};
    std::int32_t unit = 0;
    std::int32_t uses = 1;  ///< how many reports it has in a pass
  };
  /// A call about a unit, where a schedule decides the order of such calls.
  enum class UnitCallKind : std::uint8_t { Unshard, Reshard, Reduce };
  struct UnitCall {
    UnitCallKind kind = UnitCallKind::Unshard;
    std::int32_t unit = 0;
    friend bool operator==(const UnitCall&, const UnitCall&) = default;
  };
  /// The facts that decide which calls are due.
  struct Shape {
    std::vector<Unit> units{};
    std::vector<Gradient> gradients{};
    bool gathers_units = false;
    /// A schedule decides the order of the calls on units: those of a pass, and those of a pass within forward_only().
    /// Reduce takes the place of gradient_ready, and the other calls on units are not due.
    bool follows_schedule = false;
    std::vector<UnitCall> scheduled{}, scheduled_forward{};
    bool unused_are_zero = false;  ///< gradients that were not reported count as reported
    bool owns_parts = true;        ///< finish_backward gives this rank a part to update
  };
  /// end: a function that ends the communicators of the step's exchanges, on all their ranks, with the given reason.
  StepProtocol(Shape shape, std::function<void(const std::string& why)> end);
  StepProtocol(const StepProtocol&) = delete;
  StepProtocol& operator=(const StepProtocol&) = delete;

  /// Another object with a call in every step or pass, as long as it lives.
  struct Member {
    std::function<void()> end_world{};  ///< empty if this member makes no passes
    std::uint64_t last = 0;             ///< the number of the sum or pass of its last call
    bool forward_only = false;          ///< a pipeline that makes passes within forward_only(), and no others
    std::int32_t micro_batches = 0;     ///< of a pipeline
  };
  std::shared_ptr<Member> join_as_optimizer();
  /// end_world: calls Communicator::abort_world_by_exception of the pipeline's communicator. It runs in the handler of
  /// the exception that ended the step. forward_only, micro_batches: as Member has them.
  std::shared_ptr<Member> join_as_pipeline(std::function<void()> end_world, bool forward_only = false,
                                           std::int32_t micro_batches = 0);
  /// An object that reads parameters and the state of optimizers while passes go on, such as an asynchronous
  /// checkpoint. end: a function that returns when the object does not read them any more. It does not throw.
  using Reader = std::function<void()>;
  std::shared_ptr<Reader> join_as_reader(Reader end);
  /// Ends the reads of all readers. Called before parameters may change.
  void end_reads();

  // The calls of a pass.
  void before_forward(std::int32_t unit);
  void after_forward(std::int32_t unit);
  void before_backward(std::int32_t unit);
  void after_backward(std::int32_t unit);
  void gradient_ready(std::int32_t gradient);
  /// Only if a schedule decides the order.
  void scheduled(UnitCall call);
  void run(Member& pipeline);
  void finish_forward();
  /// true: gradients are summed. false: they are only added up.
  bool finish_backward();

  // The calls between finish_backward and the next step.
  /// Requires that gradients are summed, and that the step has not ended.
  void require_summed(std::string_view call);
  void update(Member& optimizer);
  void updated();

  /// For calls that belong between two steps.
  void require_between_steps(std::string_view call);
  /// enter() and leave() begin and end a scope in which passes are of another kind.
  void enter(PassKind kind);
  void leave(PassKind before) noexcept { kind_ = before; }
  /// The step begins anew. A refused call is forgotten.
  void abandon() noexcept;

  const Shape& shape() const noexcept { return shape_; }
  /// Units in the order in which they begin, forward and backward.
  const std::vector<std::int32_t>& forward_order() const noexcept { return forward_order_; }
  const std::vector<std::int32_t>& backward_order() const noexcept { return backward_order_; }
  /// The number of microbatches of the pipeline that makes the passes of training. 0: there is no such pipeline.
  std::int32_t micro_batches_of_pipeline() const noexcept;
  PassKind kind() const noexcept { return kind_; }
  /// The number of scheduled calls that were made in the present pass.
  std::size_t scheduled_calls() const noexcept { return taken_; }
  /// The number of the present or next pass. It grows when a pass ends or is given up.
  std::uint64_t passes() const noexcept { return passes_; }
  bool is_summed() const noexcept { return state_ == State::Summed; }
  /// An optimizer has begun to update parameters, and updated() has not followed.
  bool is_updating() const noexcept;
  /// The number of times that gradients have been summed. It is the number of the sum that finish_backward returned
  /// last.
  std::uint64_t sums() const noexcept { return sums_; }
  /// Why the communicators of the step have ended, as other ranks are told. Empty: they have not ended since abandon().
  const std::string& ended() const noexcept { return ended_; }

  /// Refuses a call that is not due. `instead`: the call that is due. Empty: the next call, as far as this rank knows.
  /// Errors: as above.
  [[noreturn]] void refuse(std::string_view call, std::string_view why, std::string_view instead = {});
  /// Ends the communicators of the step. If a pipeline makes the passes, this also ends the World, because some ranks
  /// share none of these communicators and would not learn of the end. Call it in the handler of the exception, with
  /// the exception's text as `why`.
  void end(const std::string& why) noexcept;

 private:
  enum class State : std::uint8_t { Between, InPass, Summed };
  enum class UnitState : std::uint8_t { Fresh, Forward, ForwardDone, Backward, Done };

  void require_not_refused() const;
  void require_pass(std::string_view call, std::int32_t unit, bool is_backward);
  template <class Text>
  void require_pass(const Text& call, bool is_backward);
  void require_no_schedule(std::string_view call, std::int32_t unit);
  bool waits_for_scheduled() const noexcept { return taken_ < order().size(); }
  const std::vector<UnitCall>& order() const noexcept {
    return kind_ == PassKind::ForwardOnly ? shape_.scheduled_forward : shape_.scheduled;
  }
  void begin_pass() noexcept;
  void end_pass() noexcept;
  void advance(std::string_view call, std::int32_t unit, UnitState from);
  void close(std::int32_t gradient) noexcept;
  bool waits_for_gradients() const noexcept { return open_ > 0 && !shape_.unused_are_zero; }
  bool waits_for_pipeline() const noexcept;
  bool waits_for_optimizer() const noexcept;
  std::string call_of_unit(std::string_view call, std::int32_t unit) const;
  std::string call_of_gradient(std::int32_t gradient) const;
  std::string text_of(UnitCall call) const;
  std::vector<std::int32_t> open_gradients(std::int32_t unit) const;
  std::vector<std::int32_t> open_gradients() const;
  /// The call that comes next. If units are gathered, a call of a unit. Empty: all units have ended.
  std::string due() const;
  std::string due_of_units() const;
  std::string due_in_backward(std::int32_t unit) const;

  Shape shape_;
  std::function<void(const std::string&)> end_;
  std::vector<std::weak_ptr<Member>> optimizers_, pipelines_;
  std::vector<std::weak_ptr<Reader>> readers_;

  State state_ = State::Between;
  PassKind kind_ = PassKind::Whole;   // of passes that begin now
  PassKind begun_ = PassKind::Whole;  // of the pass that has begun
  bool added_up_ = false;             // whether gradients were added up since the last update
  std::vector<UnitState> units_;
  std::vector<std::vector<std::int32_t>> gradients_of_;       // by unit
  std::vector<std::int32_t> forward_order_, backward_order_;  // units in the order in which they begin
  std::size_t forward_begun_ = 0, backward_begun_ = 0;        // how many units of the two orders have begun
  std::vector<std::int32_t> reports_;                         // by gradient
  std::size_t open_ = 0;                                      // gradients that are not complete
  std::size_t taken_ = 0;                                     // scheduled calls of this pass
  std::uint64_t passes_ = 1, sums_ = 0;
  std::optional<Error> refused_;
  std::string ended_;
};

}  // namespace sinew::parallel
