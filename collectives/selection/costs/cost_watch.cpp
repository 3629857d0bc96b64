#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <sinew/collectives/selection/costs/cost_watch.hpp>

namespace sinew {
namespace {

constexpr double kFarOff = 3;
constexpr int kEnoughCalls = 8;
constexpr int kEnoughKinds = 3;
constexpr std::size_t kMostKinds = 256;  // that are remembered

}  // namespace

std::string contradiction_in(const std::map<std::uint64_t, SeenCalls>& seen) {
  int kinds = 0;
  int far_off = 0;
  const SeenCalls* farthest = nullptr;
  double most = 0;
  for (const auto& [key, s] : seen) {
    if (s.calls < kEnoughCalls || s.predicted <= 0 || s.fastest <= 0) continue;
    ++kinds;
    const double off = std::max(s.fastest / s.predicted, s.predicted / s.fastest);
    if (off < kFarOff) continue;
    ++far_off;
    if (off > most) farthest = &s;
    most = std::max(most, off);
  }
  if (far_off < kEnoughKinds || 2 * far_off <= kinds) return {};
  return fmt::format(
      "{} took {:.2f} us where {:.2f} us were predicted, and {} of {} kinds of calls are {:.0f} times off",
      farthest->call, farthest->fastest * 1e6, farthest->predicted * 1e6, far_off, kinds, kFarOff);
}

void CostWatch::begin(PendingCall& call, ReadyPlan& plan, CallSlab& calls) {
  const Candidate& chosen = plan.selection.plan.chosen();
  const bool is_known = seen_.size() < kMostKinds || seen_.contains(call.fingerprint);
  if (chosen.source != CostSource::Measured || plan.desc.place.kind == MemoryKind::Device || !is_known) {
    plan.timed = ReadyPlan::kMostTimed;
    return;
  }
  ++plan.timed;  // also if it is not timed: a program that always has several calls in flight must not pay each time
  int in_flight = 0;
  calls.for_each_pending([&](const PendingCall&) { ++in_flight; });
  if (in_flight > 1) return;
  what_ = &seen_[call.fingerprint];
  if (what_->calls == 0) *what_ = {.call = plan.desc.to_string(), .predicted = chosen.predicted};
  timed_ = &call;
  calls.observe(call);
  since_ = Clock::now();
}

void CostWatch::end(const PendingCall& call) noexcept {
  timed_ = nullptr;
  if (!call.status.ok()) return;
  const Seconds took = std::chrono::duration<double>(Clock::now() - since_).count();
  what_->fastest = what_->calls == 0 ? took : std::min(what_->fastest, took);
  ++what_->calls;
}

}  // namespace sinew
