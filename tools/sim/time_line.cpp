#include "time_line.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/tools/common/time_text.hpp>
#include <sinew/tools/draw/axis.hpp>

namespace sinew::tools {
namespace {

constexpr std::size_t kMostSpans = 4000;
constexpr std::size_t kMostLanes = 16;
constexpr double kMostTrack = 8, kMostRow = 28, kRowGap = 2, kLaneGap = 6, kOfTrack = 0.9;
constexpr double kLegend = 26, kAxis = 26, kNames = 72;

}  // namespace

TimeLine::TimeLine(const Forecast& forecast) : all_spans_(forecast.time_line.size()) {
  std::set<int> ranks;
  for (const Forecast::Span& s : forecast.time_line) {
    ranks.insert(s.rank);
    end_ = std::max(end_, s.end);
  }
  all_ranks_ = static_cast<int>(ranks.size());
  while (ranks.size() > kMostLanes) ranks.erase(std::prev(ranks.end()));
  std::vector<Forecast::Span> of_lanes;
  std::ranges::copy_if(forecast.time_line, std::back_inserter(of_lanes),
                       [&](const Forecast::Span& s) { return ranks.contains(s.rank); });
  spans_ = in_time(std::move(of_lanes));
  until_ = end_;
  if (spans_.size() > kMostSpans) {
    until_ = spans_[kMostSpans].start;
    spans_.resize(kMostSpans);
    if (until_ <= 0) until_ = std::ranges::max(spans_, {}, &Forecast::Span::end).end;  // all begin at once
  }
  tracks_ = tracks_of(spans_);
  for (const int rank : ranks) lanes_.push_back({.rank = rank});
  lay_out_lanes();
}

/// A row of an operation is as high as its tracks need, up to a limit.
void TimeLine::lay_out_lanes() {
  std::map<int, std::array<std::uint32_t, kOps>> tracks;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    std::uint32_t& most = tracks[spans_[i].rank][static_cast<std::size_t>(spans_[i].op)];
    most = std::max(most, tracks_[i] + 1);
  }
  for (Lane& lane : lanes_) {
    for (std::size_t op = 0; op < kOps; ++op) {
      const std::uint32_t count = tracks[lane.rank][op];
      lane.top[op] = lane.height;
      if (count == 0) continue;
      lane.track[op] = std::min(kMostTrack, kMostRow / count);
      lane.height += lane.track[op] * count + kRowGap;
    }
    lane.height = std::max(lane.height, kMostTrack);
  }
}

double TimeLine::height() const {
  double sum = kLegend + kAxis;
  for (const Lane& lane : lanes_) sum += lane.height + kLaneGap;
  return sum;
}

std::string TimeLine::account() const {
  std::string text = fmt::format("{} simulated rank{}", all_ranks_, all_ranks_ == 1 ? "" : "s");
  if (lanes_.size() < static_cast<std::size_t>(all_ranks_)) text += fmt::format(", the first {} drawn", lanes_.size());
  if (until_ < end_) text += fmt::format("; the first {} of {}", time_text(until_), time_text(end_));
  return text + fmt::format("; {} of {} spans", spans_.size(), all_spans_);
}

void TimeLine::draw(draw::Svg& svg, draw::Point at, double width) const {
  double x = at.x + kNames;
  for (const Op op : {Op::Send, Op::Recv, Op::Copy, Op::Reduce}) {
    svg.box({x, at.y + 4, 12, 12}, word_of(op));
    svg.text({x + 16, at.y + 14}, word_of(op));
    x += 80;
  }
  svg.text({x, at.y + 14}, "every other segment a shade lighter", "faint");

  const draw::Axis time{0, until_, at.x + kNames, at.x + width};
  const double bottom = at.y + height() - kAxis;
  for (const double t : time.ticks(8)) {
    svg.line({time.at(t), at.y + kLegend - 4}, {time.at(t), bottom}, "grid");
    svg.text({time.at(t), bottom + 14}, time_text(t), "faint small", draw::Anchor::Middle);
  }
  std::map<int, std::pair<const Lane*, double>> lane_of;
  double y = at.y + kLegend;
  for (const Lane& lane : lanes_) {
    svg.text({at.x, y + lane.height / 2 + 4}, fmt::format("rank {}", lane.rank), "ink lane");
    lane_of[lane.rank] = {&lane, y};
    y += lane.height + kLaneGap;
  }
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const Forecast::Span& s = spans_[i];
    const auto& [lane, top] = lane_of[s.rank];
    const auto op = static_cast<std::size_t>(s.op);
    const double from = time.at(s.start), to = time.at(std::min(s.end, until_));
    svg.box({from, top + lane->top[op] + lane->track[op] * tracks_[i], to - from, lane->track[op] * kOfTrack},
            fmt::format("{}{}", word_of(s.op), s.segment % 2 == 0 ? "" : " odd"), describe(s));
  }
}

}  // namespace sinew::tools
