#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/collective.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/device.hpp>
#include <sinew/core/engine.hpp>
#include <sinew/core/export.hpp>
#include <sinew/core/fork_count.hpp>
#include <sinew/core/record_ring.hpp>

namespace sinew {

class CallSlab;
struct CallCell;
struct LogPiece;
class CallHistory;
struct ReadyPlan;

/// What the collectives note of a call. All but the last two are the timer's (collectives/trace/call_timer.hpp), and
/// neither written nor read where nobody times.
struct CallNotes {
  CallCell* cell = nullptr;  ///< its place in the log
  LogPiece* piece = nullptr;
  CallHistory* history = nullptr;  ///< where its times are kept
  std::uint64_t extent = 0;
  std::int64_t entered = 0;   ///< ns of CLOCK_MONOTONIC
  ReadyPlan* plan = nullptr;  ///< of a collective, from its launch on; before, of an earlier call here
  bool in_place = false;
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
  int peer = -1;  ///< point to point
  Fingerprint fingerprint = 0;
  Deadline deadline{};
  Clock::time_point first_seen_waiting{};  ///< by the watch: the first look at the clock that found it unfinished
  std::source_location where{};
  const char* label = nullptr;  ///< CallOptions::label
  OpenRecord record{};
  DeviceMark mark{};  ///< calls on device memory
  CallNotes notes{};
};

/// All operations of one World, at addresses that never change.
/// Thread: one at a time, unless `threaded`: then one thread starts and waits while another completes.
class SINEW_API CallSlab {
 public:
  CallSlab(Engine& engine, Duration default_timeout, bool threaded)
      : engine_(engine), default_timeout_(default_timeout), threaded_(threaded) {}

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
    /// A call ends now with its status. May be empty, which costs calls nothing.
    std::function<void(PendingCall&)> at_end;
  };
  /// Before the first call.
  void set_judge(Judge judge) { judge_ = std::move(judge); }
  std::string explain(const PendingCall& op) const { return judge_.explain ? judge_.explain(op) : std::string(); }
  /// Ends a call that was held, with the status it has now.
  static void settle(PendingCall& op) noexcept;

  /// Takes a place and lets `fill` say what the call is; from then on it is pending, whoever looks.
  template <class Fill>
  PendingCall& open(Fill&& fill) {
    PendingCall& op = acquire();
    fill(op);
    op.done.store(false, std::memory_order_release);
    return op;
  }
  /// Waits for the end; false when the deadline came first. Errors: InvalidArgument in a fork's child.
  bool wait(PendingCall& op, Deadline deadline);
  /// One turn of progress, unless another thread makes it; did the call end?
  bool test(PendingCall& op);
  /// Waits until streams can wait for it, or it has ended; false when the deadline came first.
  bool wait_for_mark(PendingCall& op, Deadline deadline);
  /// Its deadline has come: the watch ends it, and its communicator.
  void expire(PendingCall& op) noexcept;
  void release(PendingCall& op) noexcept;
  /// Tells the judge's at_end, if there is one.
  void tell_end(PendingCall& op) noexcept {
    if (judge_.at_end) judge_.at_end(op);
  }
  /// The Work is gone: frees the place now or when the operation ends.
  void abandon(PendingCall& op) noexcept;
  /// Visits every operation that is not done.
  template <class F>
  void for_each_pending(F&& visit) {
    guarded([&] {
      for (auto& block : blocks_) {
        for (std::size_t i = 0; i < kBlock; ++i) {
          if (!block[i].done.load(std::memory_order_acquire)) visit(block[i]);
        }
      }
    });
  }
  std::size_t pending_of(const void* owner);

 private:
  static constexpr std::size_t kBlock = 64;

  /// `Observed`: there is an at_end.
  template <bool Observed>
  static void fired(Completion& completion) noexcept;
  static void finish(PendingCall& op) noexcept;
  /// Under the lock where there are two threads.
  template <class F>
  decltype(auto) guarded(F&& f) {
    if (threaded_) [[unlikely]]
      return locked(f);
    return f();
  }
  /// Apart, so that calls of one thread pay for no more than the question.
  template <class F>
  [[gnu::noinline]] decltype(auto) locked(F& f) {
    const std::scoped_lock lock(mutex_);
    return f();
  }
  PendingCall& acquire() {
    PendingCall& op = *guarded([this] {
      if (free_ == nullptr) grow();
      ++in_use_;
      return std::exchange(free_, free_->next_free);
    });
    op.abandoned = false;
    ++op.serial;
    return op;
  }
  /// Guarded. true: somebody sleeps who may wait for it.
  bool end(PendingCall& op) noexcept {
    op.done.store(true, std::memory_order_release);
    if (op.abandoned) give_back(op);
    return sleepers_ > 0;
  }
  /// Guarded.
  void give_back(PendingCall& op) noexcept {
    op.done.store(true, std::memory_order_relaxed);
    op.first_seen_waiting = {};
    op.note = 0;
    if (op.mark.set()) [[unlikely]]
      op.mark.clear();
    if (!op.status.ok()) op.status = {};
    op.next_free = std::exchange(free_, &op);
    --in_use_;
  }
  void grow();
  bool sleep(PendingCall& op, Deadline deadline);

  void require_own_process() const;

  ForkMark fork_;
  Engine& engine_;
  Duration default_timeout_;
  bool threaded_;
  Judge judge_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int sleepers_ = 0;
  std::size_t in_use_ = 0;
  bool retired_ = false;
  std::vector<std::unique_ptr<PendingCall[]>> blocks_;
  PendingCall* free_ = nullptr;
};

}  // namespace sinew
