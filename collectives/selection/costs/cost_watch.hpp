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

/// The measured and the predicted time of the calls that have one fingerprint, which tells collective, dtype and size.
struct SeenCalls {
  std::string call{};  ///< CollectiveDesc::to_string()
  Seconds predicted = 0;
  Seconds fastest = 0;  ///< of `calls`
  int calls = 0;
};
/// Says in words that the predictions are wrong, or returns an empty text. They are wrong if at least three kinds of
/// calls and more than half of all kinds are three times faster or slower than predicted. A kind counts from eight
/// calls on.
SINEW_API std::string contradiction_in(const std::map<std::uint64_t, SeenCalls>& seen);

/// Times some calls on host memory, to find out whether the measured costs still hold. Rank 0 of a World has one.
/// It looks at the first ReadyPlan::kMostTimed calls of a plan, and times those that begin while no other call is in
/// flight.
/// Cost: the first calls of a plan cost a look at all calls in flight and two looks at the clock, later ones nothing.
class SINEW_API CostWatch {
 public:
  /// Called before the launch of a call. Precondition: ReadyPlan::timed is less than kMostTimed.
  void launching(PendingCall& call, ReadyPlan& plan, CallSlab& calls) {
    if (timed_ == nullptr) begin(call, plan, calls);
  }
  /// Called at the end of the call that is timed. Other calls may be passed, too.
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
