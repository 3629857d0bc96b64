#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/controlled.hpp>
#include <sinew/collectives/control/notice.hpp>
#include <sinew/collectives/control/verdict/verdict.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// The half of a rank's control plane that lives on the thread that drives its engine: it writes the records of calls,
/// judges those that wait, and ends communicators, whoever learnt the reason.
/// Cost: a call pays for its record and one relaxed load per turn of progress.
class SINEW_API ControlPlane : public ProgressSource {
 public:
  /// One round of the exchange. Errors: as ControlService.
  ControlPlane(const Exchange& exchange, const ControlSetup& setup, CallSlab& calls);
  ~ControlPlane() override;

  /// Called for every rank that is lost, after its communicators have ended.
  void on_lost(std::function<void(int world_rank)> call) { lost_ = std::move(call); }

  /// One that has ended elsewhere before it was made here ends now.
  void add(Controlled& communicator);
  /// It will make no more calls; says so to the others, and compares the calls once more with those at hand.
  void remove(Controlled& communicator);

  OpenRecord enter(const CallEntry& call, const std::source_location& where) noexcept {
    return ring_.enter(call, where);
  }

  /// As RecordRing.
  CallCounters& counters_of(const Group& group, Collective collective, std::string_view transport) noexcept {
    return ring_.counters_of(group, collective, transport);
  }

  /// Ends a communicator on all its ranks with this reason, or with an earlier one.
  void end(Controlled& communicator, const Status& reason);
  /// Ends a communicator's calls on this rank. The other ranks hear of it a second later, so that calls which can end
  /// without this rank do.
  void end_here(Controlled& communicator, const Status& reason);
  /// Ends the generation.
  /// patience_ms: as ControlService::announce_end.
  void end_world(const Status& reason, int patience_ms = 0);
  /// Whom the World has lost, or why it has ended; Ok: neither.
  Status world_end() const;
  /// Finds an earlier abort of the World, or of one of its communicators, by its text. The status has the World rank
  /// that aborted. Returns Ok if no abort has this text.
  Status abort_that_says(std::string_view text) const;

  /// A call that is about to end other than Ok. true: keeps it until the whole reason is known, or a moment longer than
  /// that takes; then CallSlab::settle ends it.
  bool hold(PendingCall& call);
  /// Looks at what waits: deadlines, and after 200 ms without an end, the verdict. It comes later on a host with many
  /// more ranks than cores.
  void watch(Clock::time_point now);
  /// What keeps a communicator's calls waiting, in words; empty where nothing waits.
  std::string verdict(const Controlled& communicator);
  /// The same for one call.
  std::string explain(const PendingCall& call);
  /// As Work::name_site.
  void name_site(PendingCall& call, const std::string& text);

  ControlService& service() noexcept { return service_; }
  /// This rank's records.
  const RecordPage* page() const noexcept { return ring_.page(); }

  int progress() noexcept override;
  bool active() const noexcept override { return service_.news() || !held_.empty(); }
  int wake_descriptor() const noexcept override { return service_.wake_descriptor(); }
  bool arm() noexcept override { return !active(); }
  void disarm() noexcept override {}

 private:
  struct Held {
    PendingCall* call;
    Clock::time_point since;
    Clock::time_point look_at;
  };
  /// A notice for the other ranks, and when it is due.
  struct Deferred {
    Clock::time_point at;
    Notice notice;
  };
  /// A message whose peer was found gone.
  struct Missed {
    std::uint32_t serial = 0;
    int peer = -1;
    Clock::time_point since{};
  };

  Controlled* owner_of(const PendingCall& call) noexcept;
  void end_what_must();
  bool settle(Held& held, Clock::time_point now);
  Verdict judge_call(const PendingCall& call, const Controlled& communicator, Clock::time_point now);
  bool may_still_come(const PendingCall& call, Clock::time_point now);
  void judge_pending(const std::vector<PendingCall*>& pending, Clock::time_point now);
  void judge_past(Controlled& communicator);
  std::vector<std::optional<RankReport>> reports_on(const Group& group, const Question& question);

  CallSlab& calls_;
  ControlService service_;
  RecordRing ring_;
  const Duration patience_;                           // the least time between two looks at the records of all ranks
  std::map<const void*, Controlled*> communicators_;  // by owner
  std::function<void(int)> lost_;
  std::vector<Held> held_;
  std::vector<Deferred> deferred_;
  Clock::time_point judged_{};
  std::map<const PendingCall*, Missed> missed_;
  std::map<const PendingCall*, std::uint32_t> told_;  // late calls that the log knows of, by serial
};

}  // namespace sinew
