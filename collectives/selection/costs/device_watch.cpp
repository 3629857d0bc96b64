#include <chrono>
#include <map>

#include <sinew/collectives/selection/costs/device_watch.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/log.hpp>

namespace sinew {

bool DeviceWatch::is_done(StreamRef stream) {
  if (stream.device < 0) return true;
  const DeviceRuntime::Event event = runtime_.record(stream);
  const bool done = runtime_.query(event);
  runtime_.release(event);
  return done;
}

void DeviceWatch::begin(const PendingCall& call, ReadyPlan& plan, std::span<const int> world_ranks, StreamRef after,
                        CallSlab& calls) {
  if (plan.desc.captured) return;  // it ends before it runs
  if (plan.desc.determinism != Determinism::Fast || plan.desc.codec != Codec::None) return;
  int in_flight = 0;
  calls.for_each_pending([&](const PendingCall&) { ++in_flight; });
  if (in_flight > 1 || !is_done(after)) return;
  ++plan.timed;
  std::map<int, int> on_host;
  for (const int r : world_ranks) ++on_host[facts_.ranks[static_cast<std::size_t>(r)].host];
  const Candidate& chosen = plan.selection.plan.chosen();
  what_ = {{}, std::string(name_of(plan.desc.collective)), chosen.algorithm, chosen.transport};
  for (const auto& [host, ranks] : on_host) what_.ranks_on.push_back(ranks);
  bytes_ = plan.desc.bytes(static_cast<int>(world_ranks.size()));
  timed_ = &call;
  since_ = Clock::now();
}

void DeviceWatch::end(const PendingCall& call) noexcept {
  timed_ = nullptr;
  if (!call.status.ok()) return;
  const Seconds seconds = std::chrono::duration<double>(Clock::now() - since_).count();
  try {
    times_.add(what_, bytes_, seconds);
  } catch (const std::exception& e) {
    log::info("a time of a call on device memory is lost: {}", e.what());
  }
}

}  // namespace sinew
