#include "chrome_trace.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/trace/call_tally.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicro = 1e-3;
/// Calls of a communicator that are under way at a time and have threads of their own; further ones share the last.
constexpr std::uint32_t kTracks = 64;

class Writer {
 public:
  Writer(std::ostream& to, std::int64_t zero) : to_(to), zero_(zero) { to_ << "["; }

  void add(const RankLog& log) {
    const LogSummary& about = log.about();
    rank_ = about.rank;
    name("process_name", 0, fmt::format("rank {} (host {}, process {})", about.rank, about.host, about.process));
    event({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", rank_}, {"tid", 0}, {"args", {{"sort_index", rank_}}}});
    tracks_.clear();
    for (auto calls = log.calls(); const auto call = calls.next();) add(log, *call);
  }
  void end() { to_ << "\n]\n"; }

 private:
  void add(const RankLog& log, const LoggedCall& call) {
    const LoggedCommunicator& on = *log.communicator(call.communicator);
    const LoggedPlan* plan = log.plan(call.plan);
    CallKey key = key_of(call.fingerprint, call.extent, static_cast<int>(on.world_ranks.size()));
    if (plan != nullptr) key.bytes = plan->bytes;
    Json args{{"communicator", on.id},       {"ranks", on.world_ranks.size()},
              {"sequence", call.sequence},   {"bytes", key.bytes},
              {"site", log.site(call.site)}, {"call", describe_fingerprint(call.fingerprint)}};
    if (call.peer >= 0) args["peer"] = on.world_ranks[static_cast<std::size_t>(call.peer)];
    if (plan != nullptr) {
      args["algorithm"] = plan->algorithm;
      args["transport"] = plan->transport;
      args["predicted_us"] = plan->predicted * 1e6;
      args["in_place"] = call.in_place;
    }
    args["outcome"] = call.completed ? std::string(name_of(call.outcome)) : "never completed";
    Json e{{"ph", call.completed ? "X" : "B"},
           {"name", std::string(name_of(call.collective()))},
           {"cat", is_message(call.collective()) ? "message" : "collective"},
           {"pid", rank_},
           {"tid", thread_of(on.id, call)},
           {"ts", static_cast<double>(call.entered - zero_) * kMicro}};
    if (call.completed) e["dur"] = static_cast<double>(*call.completed - call.entered) * kMicro;
    e["args"] = std::move(args);
    event(e);
  }

  std::uint32_t thread_of(std::uint32_t communicator, const LoggedCall& call) {
    std::vector<std::int64_t>& ends = tracks_[communicator];
    const auto free = std::ranges::find_if(ends, [&](std::int64_t end) { return end <= call.entered; });
    auto track = static_cast<std::uint32_t>(free - ends.begin());
    if (free == ends.end() && track < kTracks) {
      ends.push_back(0);
      name("thread_name", communicator * kTracks + track,
           track == 0 ? fmt::format("communicator {}", communicator)
                      : fmt::format("communicator {}, {} under way", communicator, track + 1));
    }
    track = std::min(track, kTracks - 1);
    ends[track] = std::max(ends[track], call.completed.value_or(std::numeric_limits<std::int64_t>::max()));
    return communicator * kTracks + track;
  }

  void name(const char* what, std::uint32_t thread, const std::string& text) {
    event({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", thread}, {"args", {{"name", text}}}});
  }
  void event(const Json& e) {
    to_ << (first_ ? "\n" : ",\n") << json_text(e);
    first_ = false;
  }

  std::ostream& to_;
  std::int64_t zero_;
  int rank_ = 0;
  bool first_ = true;
  std::map<std::uint32_t, std::vector<std::int64_t>> tracks_;  // when each is free, by communicator
};

}  // namespace

void write_chrome_trace(const JobLogs& job, std::ostream& to, const std::function<void(std::size_t)>& before_rank) {
  std::int64_t zero = std::numeric_limits<std::int64_t>::max();
  for (const RankLog& log : job.logs) zero = std::min(zero, log.about().opened);
  Writer writer(to, zero);
  for (std::size_t i = 0; i < job.logs.size(); ++i) {
    before_rank(i);
    writer.add(job.logs[i]);
  }
  writer.end();
}

}  // namespace sinew::tools
