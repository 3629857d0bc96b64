#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/runtime/call_slab.hpp>

namespace sinew {

/// The times of one kind of calls, and their prediction.
struct SeenCalls {
  std::string call{};  ///< in words
  Seconds predicted = 0;
  Seconds fastest = 0;  ///< of `calls`
  int calls = 0;
};
/// Says in words that the predictions are wrong, or returns an empty text. They are wrong if at least three kinds of
/// calls and more than half of all kinds are three times faster or slower than predicted. A kind counts from eight
/// calls on.
SINEW_API std::string contradiction_in(const std::map<std::uint64_t, SeenCalls>& seen);

/// Times some calls on host memory, so that costs that do not hold any more are found out. Rank 0 of a World has one.
/// A call is timed if nothing else of the World is in flight. The first calls of each plan are timed, one at a time.
/// Cost: a call that is not timed costs one comparison at its start. A call that is timed costs a look at all calls in
///       flight, and two looks at the clock.
class SINEW_API CostWatch {
 public:
  /// Called before the launch of a call.
  void launching(PendingCall& call, ReadyPlan& plan, CallSlab& calls) {
    if (plan.timed < ReadyPlan::kMostTimed && timed_ == nullptr) [[unlikely]]
      begin(call, plan, calls);
  }
  /// Called at the end of a call that is timed, and of others.
  void ended(const PendingCall& call) noexcept {
    if (&call == timed_) [[unlikely]]
      end(call);
  }
  const std::map<std::uint64_t, SeenCalls>& seen() const noexcept { return seen_; }

 private:
  void begin(PendingCall& call, ReadyPlan& plan, CallSlab& calls);
  void end(const PendingCall& call) noexcept;

  std::map<std::uint64_t, SeenCalls> seen_;  // by fingerprint
  const PendingCall* timed_ = nullptr;
  SeenCalls* what_ = nullptr;  // the calls of which one is timed
  Clock::time_point since_{};
};

}  // namespace sinew
