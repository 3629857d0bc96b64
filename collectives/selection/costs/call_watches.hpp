#pragma once

#include <memory>
#include <span>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/selection/costs/cost_watch.hpp>
#include <sinew/collectives/selection/costs/device_watch.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// Times some calls of a World, and keeps for later jobs what the times tell: how long calls on device memory take, and
/// whether calls on host memory contradict the measured costs. On ranks other than 0 it does nothing.
class SINEW_API CallWatches {
 public:
  /// All arguments outlive it. `runtime`: null if this rank has no device.
  CallWatches(const Facts& facts, DeviceRuntime* runtime, const Config& config, MachineUse use, int rank);

  /// Called before the launch of a call of these ranks of the World, until ReadyPlan::timed is kMostTimed.
  void launching(PendingCall& call, ReadyPlan& plan, std::span<const int> world_ranks, StreamRef after,
                 CallSlab& calls);
  /// Called at the end of a call that is timed. Other calls may be passed, too.
  void ended(const PendingCall& call) noexcept {
    if (on_host_) on_host_->ended(call);
    if (on_device_) on_device_->ended(call);
  }
  /// True if ended() must be called for all calls.
  bool observes_all() const noexcept { return on_device_ != nullptr; }
  /// The times of calls on device memory so far. Null: such calls are not timed.
  const SeenTimes* device_times() const noexcept { return on_device_ ? &on_device_->times() : nullptr; }
  /// Writes what was seen to the cost cache, where later jobs find it.
  void keep() const noexcept;

 private:
  void keep_contradiction() const;

  const Config& config_;
  MachineUse use_;
  std::unique_ptr<CostWatch> on_host_;
  std::unique_ptr<DeviceWatch> on_device_;
};

}  // namespace sinew
