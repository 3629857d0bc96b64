#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/collectives/trace/call_history.hpp>
#include <sinew/collectives/trace/call_log.hpp>
#include <sinew/collectives/trace/clock_difference.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/core/runtime/call_record.hpp>
#include <sinew/core/runtime/call_slab.hpp>

namespace sinew {

/// Times a rank's calls where the user asks for it (SINEW_TRACE, SINEW_STATS); otherwise there is none, and calls ask
/// once. Writes them to the log, if there is one, and keeps each communicator's history.
/// Thread: under the lock of the World, where several threads use it.
/// Cost:   two clocks and a cache line written per call: 60 to 90 ns.
class CallTimer {
 public:
  /// `log`: null without SINEW_TRACE. `page`: where call sites' texts are.
  CallTimer(std::unique_ptr<CallLog> log, const RecordPage* page, ClockDifference clock);

  /// The number that entered() takes; of a group of ranks.
  std::uint32_t define(const Group& group);
  /// `history`: where the call's times go; null: nowhere. `extent`: extent_of() its description.
  void entered(PendingCall& call, std::uint32_t communicator, CallHistory* history, std::uint64_t extent) noexcept;
  void ended(PendingCall& call) noexcept;

  const ClockDifference& clock() const noexcept { return clock_; }

 private:
  std::uint32_t site_of(const PendingCall& call);
  /// A plan's number in the log.
  std::uint32_t number_of(ReadyPlan& plan);
  void keep(const PendingCall& call, std::int64_t now);

  std::unique_ptr<CallLog> log_;
  const RecordPage* page_;
  ClockDifference clock_;
  std::vector<std::uint32_t> sites_;  // number in the log, by index in the page
};

}  // namespace sinew
