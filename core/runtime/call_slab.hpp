#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/runtime/continuations.hpp>
#include <sinew/core/runtime/engine.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <sinew/core/runtime/shared_progress.hpp>
#include <sinew/core/system/fork_count.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

class CallSlab;
struct CallCell;
struct LogBlock;
class CallHistory;
struct ReadyPlan;

/// What the collectives note of a call. All but the last two are the timer's (collectives/trace/call_timer.hpp), and
/// neither written nor read where nobody times.
struct CallNotes {
  CallCell* cell = nullptr;  ///< its place in the log
  LogBlock* block = nullptr;
  CallHistory* history = nullptr;  ///< where its times are kept
  std::uint64_t extent = 0;
  std::int64_t entered = 0;   ///< ns of CLOCK_MONOTONIC
  ReadyPlan* plan = nullptr;  ///< of a collective, from its launch on; before, of an earlier call here
  bool in_place = false;
};

/// A function that was given to Work::then, and a link to the next one of the same call.
struct Continuation {
  std::function<void(const Status&)> run;
  std::unique_ptr<Continuation> next;
};

/// One call in flight: its completion, and what a verdict must say about it.
struct PendingCall : Completion {
  std::atomic<bool> done{true};  ///< so are places that are free, or being filled
  bool abandoned = false;
  std::uint32_t serial = 0;  ///< of the calls that this place has held
  CallSlab* slab = nullptr;
  PendingCall* next_free = nullptr;
  const void* owner = nullptr;  ///< the communicator
  std::uint32_t sequence = 0;
  int peer = -1;  ///< of a message, a rank of the communicator; below 0: not known yet, of a receive from any rank
  Fingerprint fingerprint = 0;
  Deadline deadline{};
  Clock::time_point first_seen_waiting{};  ///< by the watch: the first look at the clock that found it unfinished
  std::source_location where{};
  const char* label = nullptr;  ///< CallOptions::label
  const char* named = nullptr;  ///< Work::name_site: shown instead of `where` and `label`
  OpenRecord record{};
  DeviceMark mark{};  ///< calls on device memory
  CallNotes notes{};
  std::unique_ptr<Continuation> after{};  ///< the function of Work::then
};

/// Where the call was made, for errors.
inline std::string site_of(const PendingCall& call) {
  return call.named != nullptr ? std::string(call.named) : site_text(call.where, call.label);
}

inline bool is_message(const PendingCall& call) noexcept { return is_message(collective_of(call.fingerprint)); }

/// All operations of one World, at addresses that never change.
/// Thread: one thread at a time. If `threaded`, any thread that holds the lock of shared(). The last group of functions
///         takes this lock itself.
class SINEW_API CallSlab {
 public:
  CallSlab(Engine& engine, Duration default_timeout, bool threaded);
  ~CallSlab();
  CallSlab(const CallSlab&) = delete;
  CallSlab& operator=(const CallSlab&) = delete;

  /// The lock and the thread of a World of Threads::Multiple; null with Threads::Single.
  SharedProgress* shared() noexcept { return shared_.get(); }

  /// The World has ended: what still has a Work stays until that has gone, and what is pending ends Aborted.
  static void retire(CallSlab* slab) noexcept;
  struct Retire {
    void operator()(CallSlab* slab) const noexcept { retire(slab); }
  };

  /// What knows more about calls that do not end well.
  struct Judge {
    /// A call is about to end other than Ok; may change its status. true: it goes on and ends by settle().
    std::function<bool(PendingCall&)> hold;
    /// Why a call that waits is not done, in words.
    std::function<std::string(const PendingCall&)> explain;
    /// A call ends now with its status. Called for observed calls and for calls that settle() ends.
    std::function<void(PendingCall&)> at_end;
    bool observes_all = false;  ///< true: all calls are observed; false: those that were passed to observe()
    /// As Work::name_site.
    std::function<void(PendingCall&, const std::string& text)> name_site;
  };
  /// Before the first call.
  void set_judge(Judge judge) { judge_ = std::move(judge); }
  std::string explain(const PendingCall& op) const { return judge_.explain ? judge_.explain(op) : std::string(); }
  /// Observes this call: the judge's at_end is called at its end. Precondition: the call has not been launched.
  void observe(PendingCall& op) const noexcept { op.fire = &CallSlab::fired<true>; }
  /// Ends a call that was held, with the status it has now.
  static void settle(PendingCall& op) noexcept;

  /// Takes a place and lets `fill` say what the call is; from then on it is pending, whoever looks.
  template <class Fill>
  PendingCall& open(Fill&& fill) {
    PendingCall& op = acquire();
    fill(op);
    op.done.store(false, std::memory_order_release);
    if (shared_) [[unlikely]]
      shared_->opened();
    return op;
  }
  /// Makes progress, or lets another thread make it, until done(); false when the deadline came first.
  template <class Done>
  bool wait_until(Done&& done, Deadline deadline, const PendingCall* call = nullptr) {
    if (shared_) [[unlikely]]
      return shared_->wait(done, call, deadline, default_timeout_);
    return engine_.wait(done, deadline, default_timeout_);
  }
  /// Gives back the place of a call that has ended, of which nobody has a Work. The caller holds the lock.
  void free(PendingCall& op) noexcept { give_back(op); }
  /// Gives back the place of a call that could not be launched.
  void release(PendingCall& op) noexcept;

  // These functions take the lock themselves.

  /// Waits for the end; false when the deadline came first. Errors: InvalidArgument in a fork's child.
  bool wait(PendingCall& op, Deadline deadline);
  /// Waits until the call has ended, at most for the configured timeout. Returns true if the call succeeded; its place
  /// is free again then.
  bool wait_and_free(PendingCall& op);
  /// One turn of progress, unless another thread makes it; did the call end?
  bool test(PendingCall& op);
  /// Waits until streams can wait for it, or it has ended; false when the deadline came first.
  bool wait_for_mark(PendingCall& op, Deadline deadline);
  /// Its deadline has come: the watch ends it, and its communicator.
  void expire(PendingCall& op) noexcept;
  /// As Work::name_site. Does nothing in a fork's child.
  void name_site(PendingCall& op, const std::string& text);
  /// As Work::then.
  void then(PendingCall& op, std::function<void(const Status&)> run);
  /// Tells the judge's at_end, if there is one.
  void tell_end(PendingCall& op) noexcept {
    if (judge_.at_end) judge_.at_end(op);
  }
  /// Called when the Work is destroyed. Frees the operation's place, at once or when the operation ends.
  /// Fork: does nothing in a child. There the lock may belong to a thread that exists only in the parent.
  void abandon(PendingCall& op) noexcept;
  /// Visits every operation that is not done.
  template <class F>
  void for_each_pending(F&& visit) {
    for (auto& block : blocks_) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        if (!block[i].done.load(std::memory_order_acquire)) visit(block[i]);
      }
    }
  }
  std::size_t pending_of(const void* owner);

 private:
  static constexpr std::size_t kBlock = 64;

  /// `Observed`: the call is observed.
  template <bool Observed>
  static void fired(Completion& completion) noexcept;
  static void finish(PendingCall& op) noexcept;
  using Hold = SharedProgress::Hold;

  PendingCall& acquire() {
    if (free_ == nullptr) [[unlikely]]
      grow();
    ++in_use_;
    PendingCall& op = *std::exchange(free_, free_->next_free);
    op.abandoned = false;
    ++op.serial;
    return op;
  }
  void give_back(PendingCall& op) noexcept {
    op.done.store(true, std::memory_order_relaxed);
    op.first_seen_waiting = {};
    op.named = nullptr;
    op.note = 0;
    if (op.mark.set()) [[unlikely]]
      op.mark.clear();
    if (!op.status.ok()) op.status = {};
    op.next_free = std::exchange(free_, &op);
    --in_use_;
  }
  void grow();
  /// Called when a call has ended: passes its Work::then functions to the threads that run them.
  void start_after(PendingCall& op) noexcept;

  void require_own_process() const;

  ForkMark fork_;
  Engine& engine_;
  Duration default_timeout_;
  std::unique_ptr<SharedProgress> shared_;
  std::unique_ptr<Continuations> continuations_;  ///< from the first then() of an unfinished call on
  Judge judge_;
  std::size_t in_use_ = 0;
  bool retired_ = false;
  std::vector<std::unique_ptr<PendingCall[]>> blocks_;
  PendingCall* free_ = nullptr;
};

}  // namespace sinew
