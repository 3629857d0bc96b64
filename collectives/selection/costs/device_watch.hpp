#pragma once

#include <span>
#include <string>
#include <utility>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/collectives/selection/times/seen_times.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// Times some calls on device memory, so that later jobs know what they take. Rank 0 of a World has one.
/// A call is timed if nothing else of the World is in flight, and if the work of the caller's stream is done. So the
/// time is the call's own. A few calls of each plan are timed, one at a time.
/// Cost: a call that is not timed costs one comparison at its start and one at its end. A call that is timed costs an
///       event, a look at all calls in flight, and two looks at the clock.
class DeviceWatch {
 public:
  /// `devices`: device_kind() of the World's ranks. `facts` and the runtime outlive this object.
  DeviceWatch(const Facts& facts, DeviceRuntime& runtime, std::string devices)
      : facts_(facts), runtime_(runtime), times_{.devices = std::move(devices), .points = {}} {}

  /// Called before the launch of a call on device memory of the ranks `world_ranks`. Precondition: ReadyPlan::timed is
  /// less than kMostTimed.
  void launching(const PendingCall& call, ReadyPlan& plan, std::span<const int> world_ranks, StreamRef after,
                 CallSlab& calls) {
    if (timed_ == nullptr) begin(call, plan, world_ranks, after, calls);
  }
  /// Called at the end of every call.
  void ended(const PendingCall& call) noexcept {
    if (&call == timed_) [[unlikely]]
      end(call);
  }
  const SeenTimes& times() const noexcept { return times_; }

 private:
  void begin(const PendingCall& call, ReadyPlan& plan, std::span<const int> world_ranks, StreamRef after,
             CallSlab& calls);
  void end(const PendingCall& call) noexcept;
  bool is_done(StreamRef stream);

  const Facts& facts_;
  DeviceRuntime& runtime_;
  SeenTimes times_;
  const PendingCall* timed_ = nullptr;
  SeenTimes::Call what_;  // the call that is timed
  std::uint64_t bytes_ = 0;
  Clock::time_point since_{};
};

}  // namespace sinew
