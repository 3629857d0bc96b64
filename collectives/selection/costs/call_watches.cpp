#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/selection/costs/call_watches.hpp>
#include <sinew/core/log.hpp>

namespace sinew {

CallWatches::CallWatches(const Facts& facts, DeviceRuntime* runtime, const Config& config, MachineUse use, int rank)
    : config_(config), use_(use) {
  const int size = static_cast<int>(facts.ranks.size());
  if (rank != 0) return;
  const bool one_host = facts.cores_of_host.size() == 1 && facts.cores_of_host[0] >= size;
  if (size > 1 && one_host) on_host_ = std::make_unique<CostWatch>();
  if (runtime == nullptr || !facts.no_device.empty()) return;
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<DeviceLinks> devices = facts.devices_of(all);
  const bool are_known = std::ranges::none_of(devices, [](const DeviceLinks& d) { return d.model.empty(); });
  if (are_known) on_device_ = std::make_unique<DeviceWatch>(facts, *runtime, device_kind(devices));
}

void CallWatches::launching(PendingCall& call, ReadyPlan& plan, std::span<const int> world_ranks, StreamRef after,
                            CallSlab& calls) {
  const bool on_device = plan.desc.place.kind == MemoryKind::Device;
  if (on_device && on_device_) {
    on_device_->launching(call, plan, world_ranks, after, calls);
  } else if (!on_device && on_host_) {
    on_host_->launching(call, plan, calls);
  } else {
    plan.timed = ReadyPlan::kMostTimed;
  }
}

void CallWatches::keep() const noexcept {
  try {
    if (on_device_ && !on_device_->times().points.empty())
      save_seen_times(cost_cache_file(config_), on_device_->times());
    if (on_host_) keep_contradiction();
  } catch (const std::exception& e) {
    log::info("times of calls are not kept for later jobs: {}", e.what());
  }
}

/// Marks the costs in the cache as contradicted, so that a later job measures them again.
void CallWatches::keep_contradiction() const {
  const std::string text = contradiction_in(on_host_->seen());
  if (text.empty()) return;
  const std::string file = cost_cache_file(config_);
  std::optional<MeasuredCosts> costs = load_costs(file, use_);
  if (!costs || !costs->contradicted.empty()) return;
  costs->contradicted = text;
  save_costs(file, use_, *costs);
}

}  // namespace sinew
