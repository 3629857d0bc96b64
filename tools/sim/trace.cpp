#include "trace.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/trace/chrome_trace.hpp>

#include "spans.hpp"
#include "ways.hpp"

namespace sinew::tools {
namespace {

constexpr std::size_t kMostSpans = 500'000;

/// The threads of a rank are ordered by track first: track 0 of each operation, then track 1 of each.
std::uint32_t thread_of(Op op, std::uint32_t track) {
  return static_cast<std::uint32_t>(kOps) * track + static_cast<std::uint32_t>(op);
}

}  // namespace

void write_trace(std::ostream& to, const std::string& title, const Forecast& forecast) {
  std::vector<Forecast::Span> spans = in_time(forecast.time_line);
  const std::size_t left_out = spans.size() > kMostSpans ? spans.size() - kMostSpans : 0;
  spans.resize(spans.size() - left_out);
  const std::vector<std::uint32_t> tracks = tracks_of(spans);

  ChromeTrace trace(to, {{"title", title},
                         {"account", forecast.account},
                         {"time_us", forecast.seconds * kMicrosecondsPerSecond},
                         {"spans_left_out", left_out}});
  std::set<int> ranks;
  std::set<std::pair<int, std::uint32_t>> threads;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Forecast::Span& s = spans[i];
    const TraceLane lane{s.rank, thread_of(s.op, tracks[i])};
    if (ranks.insert(s.rank).second) trace.name_process(s.rank, fmt::format("rank {}", s.rank));
    if (threads.emplace(s.rank, lane.thread).second) {
      trace.name_thread(
          lane, tracks[i] == 0 ? std::string(word_of(s.op)) : fmt::format("{} {}", word_of(s.op), tracks[i] + 1));
    }
    TraceEvent event{.lane = lane,
                     .name = fmt::format("{} {}", word_of(s.op), s.segment),
                     .category = std::string(word_of(s.op)),
                     .start_us = s.start * kMicrosecondsPerSecond,
                     .fields = {{"segment", s.segment}, {"step", s.step}}};
    if (s.peer >= 0) event.fields.emplace_back("peer", s.peer);
    trace.span(event, (s.end - s.start) * kMicrosecondsPerSecond);
  }
  trace.end();
}

}  // namespace sinew::tools
