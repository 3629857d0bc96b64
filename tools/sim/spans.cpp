#include "spans.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/tools/common/time_text.hpp>

namespace sinew::tools {

std::string_view word_of(Op op) noexcept {
  switch (op) {
    case Op::Send: return "send";
    case Op::Recv: return "recv";
    case Op::Copy: return "copy";
    case Op::Reduce: return "reduce";
  }
  return "";
}

std::string describe(const Forecast::Span& span) {
  std::string what = fmt::format("rank {} {}", span.rank, span.op == Op::Copy ? "copies" : "reduces");
  if (span.op == Op::Send) what = fmt::format("rank {} sends to {}", span.rank, span.peer);
  if (span.op == Op::Recv) what = fmt::format("rank {} receives from {}", span.rank, span.peer);
  return fmt::format("{}, segment {}, step {}: {} to {}, {}", what, span.segment, span.step, time_text(span.start),
                     time_text(span.end), time_text(span.end - span.start));
}

std::vector<std::uint32_t> tracks_of(const std::vector<Forecast::Span>& spans) {
  constexpr double kSameTime = 1e-9;  // rounding makes one that follows begin a little early
  using Track = std::pair<Seconds, std::uint32_t>;
  struct Row {
    std::priority_queue<Track, std::vector<Track>, std::greater<>> free_from;
    std::uint32_t tracks = 0;
  };
  std::map<std::pair<int, Op>, Row> rows;
  std::vector<std::uint32_t> tracks;
  tracks.reserve(spans.size());
  for (const Forecast::Span& span : spans) {
    Row& row = rows[{span.rank, span.op}];
    std::uint32_t track = row.tracks;
    if (!row.free_from.empty() && row.free_from.top().first <= span.start * (1 + kSameTime)) {
      track = row.free_from.top().second;
      row.free_from.pop();
    } else {
      ++row.tracks;
    }
    row.free_from.emplace(span.end, track);
    tracks.push_back(track);
  }
  return tracks;
}

std::vector<Forecast::Span> in_time(std::vector<Forecast::Span> spans) {
  std::ranges::sort(spans, {},
                    [](const Forecast::Span& s) { return std::tuple(s.start, s.end, s.rank, s.segment, s.step); });
  return spans;
}

}  // namespace sinew::tools
