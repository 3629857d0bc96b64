#include "trace.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/topology/format/json/json_text.hpp>

#include "spans.hpp"
#include "ways.hpp"

namespace sinew::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostSpans = 500'000;

Json name(const char* what, int rank, std::size_t thread, const std::string& text) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", text}}}};
}

/// Of a rank: track 0 of each operation, then track 1 of each.
std::size_t thread_of(Op op, std::uint32_t track) { return kOps * track + static_cast<std::size_t>(op); }

}  // namespace

std::string trace_of(const std::string& title, const Forecast& forecast) {
  std::vector<Forecast::Span> spans = in_time(forecast.time_line);
  const std::size_t left_out = spans.size() > kMostSpans ? spans.size() - kMostSpans : 0;
  spans.resize(spans.size() - left_out);
  const std::vector<std::uint32_t> tracks = tracks_of(spans);

  std::string events;
  const auto add = [&](const Json& event) { events += (events.empty() ? "\n" : ",\n") + json_text(event); };
  std::set<int> ranks;
  std::set<std::pair<int, std::size_t>> threads;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Forecast::Span& s = spans[i];
    const std::size_t thread = thread_of(s.op, tracks[i]);
    if (ranks.insert(s.rank).second) add(name("process_name", s.rank, 0, fmt::format("rank {}", s.rank)));
    if (threads.emplace(s.rank, thread).second) {
      add(name("thread_name", s.rank, thread,
               tracks[i] == 0 ? std::string(word_of(s.op)) : fmt::format("{} {}", word_of(s.op), tracks[i] + 1)));
    }
    Json args{{"segment", s.segment}, {"step", s.step}};
    if (s.peer >= 0) args["peer"] = s.peer;
    add({{"ph", "X"},
         {"name", fmt::format("{} {}", word_of(s.op), s.segment)},
         {"cat", word_of(s.op)},
         {"pid", s.rank},
         {"tid", thread},
         {"ts", s.start * kMicrosecondsPerSecond},
         {"dur", (s.end - s.start) * kMicrosecondsPerSecond},
         {"args", args}});
  }
  const Json about{{"title", title},
                   {"account", forecast.account},
                   {"time_us", forecast.seconds * kMicrosecondsPerSecond},
                   {"spans_left_out", left_out}};
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[{}\n]}}\n", json_text(about),
                     events);
}

}  // namespace sinew::tools
