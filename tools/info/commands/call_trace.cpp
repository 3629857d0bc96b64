#include "call_trace.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/trace/call_tally.hpp>
#include <sinew/collectives/trace/chrome_trace.hpp>

namespace sinew::tools {
namespace {

constexpr double kMicro = 1e-3;
/// The most threads that a communicator gets in the trace. If more calls are in flight at a time, they share the last.
constexpr std::uint32_t kTracks = 64;

class CallTrace {
 public:
  CallTrace(std::ostream& to, std::int64_t zero) : trace_(to), zero_(zero) {}

  void add(const RankLog& log) {
    const LogSummary& about = log.about();
    rank_ = about.rank;
    trace_.name_process(rank_, fmt::format("rank {} (host {}, process {})", about.rank, about.host, about.process));
    tracks_.clear();
    for (auto calls = log.calls(); const auto call = calls.next();) add(log, *call);
  }
  void end() { trace_.end(); }

 private:
  void add(const RankLog& log, const LoggedCall& call) {
    const LoggedCommunicator& on = *log.communicator(call.communicator);
    const LoggedPlan* plan = log.plan(call.plan);
    CallKey key = key_of(call.fingerprint, call.extent, static_cast<int>(on.world_ranks.size()));
    if (plan != nullptr) key.bytes = plan->bytes;
    TraceEvent event{.lane = {rank_, thread_of(on.id, call)},
                     .name = std::string(name_of(call.collective())),
                     .category = is_message(call.collective()) ? "message" : "collective",
                     .start_us = static_cast<double>(call.entered - zero_) * kMicro,
                     .fields = {{"communicator", on.id},
                                {"ranks", on.world_ranks.size()},
                                {"sequence", call.sequence},
                                {"bytes", key.bytes},
                                {"site", log.site(call.site)},
                                {"call", describe_fingerprint(call.fingerprint)}}};
    if (call.peer >= 0) event.fields.emplace_back("peer", on.world_ranks[static_cast<std::size_t>(call.peer)]);
    if (plan != nullptr) {
      event.fields.emplace_back("algorithm", plan->algorithm);
      event.fields.emplace_back("transport", plan->transport);
      event.fields.emplace_back("predicted_us", plan->predicted * 1e6);
      event.fields.emplace_back("in_place", call.in_place);
    }
    event.fields.emplace_back("outcome", call.completed ? std::string(name_of(call.outcome)) : "never completed");
    if (call.completed) {
      trace_.span(event, static_cast<double>(*call.completed - call.entered) * kMicro);
    } else {
      trace_.open_span(event);
    }
  }

  std::uint32_t thread_of(std::uint32_t communicator, const LoggedCall& call) {
    std::vector<std::int64_t>& ends = tracks_[communicator];
    const auto free = std::ranges::find_if(ends, [&](std::int64_t end) { return end <= call.entered; });
    auto track = static_cast<std::uint32_t>(free - ends.begin());
    if (free == ends.end() && track < kTracks) {
      ends.push_back(0);
      trace_.name_thread({rank_, communicator * kTracks + track},
                         track == 0 ? fmt::format("communicator {}", communicator)
                                    : fmt::format("communicator {}, {} in flight", communicator, track + 1));
    }
    track = std::min(track, kTracks - 1);
    ends[track] = std::max(ends[track], call.completed.value_or(std::numeric_limits<std::int64_t>::max()));
    return communicator * kTracks + track;
  }

  ChromeTrace trace_;
  std::int64_t zero_;
  int rank_ = 0;
  std::map<std::uint32_t, std::vector<std::int64_t>> tracks_;  // by communicator: when each track is free
};

}  // namespace

void write_call_trace(const JobLogs& job, std::ostream& to, const std::function<void(std::size_t)>& before_rank) {
  std::int64_t zero = std::numeric_limits<std::int64_t>::max();
  for (const RankLog& log : job.logs) zero = std::min(zero, log.about().opened);
  CallTrace trace(to, zero);
  for (std::size_t i = 0; i < job.logs.size(); ++i) {
    before_rank(i);
    trace.add(job.logs[i]);
  }
  trace.end();
}

}  // namespace sinew::tools
