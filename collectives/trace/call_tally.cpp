#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/trace/call_tally.hpp>
#include <sinew/core/call/bus_factor.hpp>

namespace sinew {
namespace {

double median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return static_cast<double>(*middle);
}

float seconds_of(std::int64_t ns) { return static_cast<float>(static_cast<double>(ns) * kSecondsPerNs); }

std::string microseconds(Seconds s) { return fmt::format("{:.1f}", s * 1e6); }

}  // namespace

CallKey key_of(Fingerprint fingerprint, std::uint64_t extent, int ranks) noexcept {
  CollectiveDesc desc{.collective = static_cast<Collective>(fingerprint & 31),
                      .dtype = static_cast<DType>(fingerprint >> 5 & 15),
                      .count = extent,
                      .largest_bytes = extent};
  const bool shared = has_shared_counts(desc.collective);
  return {desc.collective, desc.dtype, shared ? 0 : desc.bytes(ranks)};
}

void CollectiveTiming::add(const CallSpan& span) noexcept {
  ++ranks_;
  first_entered_ = std::min(first_entered_, span.entered);
  end_ = std::max(end_, span.completed);
  if (span.entered > last_.entered) last_ = span;
}

std::int64_t CollectiveTiming::time_ns() const noexcept {
  return std::max({end_ - last_.entered, last_.completed - last_.entered, std::int64_t{0}});
}

void CallTally::add(const CollectiveTiming& timing, std::optional<Seconds> predicted) {
  add_alone(timing.time_ns(), predicted);
  if (timing.ranks() < 2) return;
  skews_s_.push_back(seconds_of(timing.skew_ns()));
  const auto last = static_cast<std::size_t>(timing.last_rank());
  if (last_.size() <= last) last_.resize(last + 1);
  ++last_[last];
}

void CallTally::add_alone(std::int64_t ns, std::optional<Seconds> predicted) {
  times_s_.push_back(seconds_of(ns));
  if (predicted) predicted_s_.push_back(static_cast<float>(*predicted));
}

void CallTally::fill(CallStats& stats, int ranks) const {
  stats.judged = times_s_.size();
  stats.time_median = median(times_s_);
  stats.predicted = median(predicted_s_);
  if (stats.time_median > 0)
    stats.busbw = static_cast<double>(stats.bytes) / stats.time_median * bus_factor(stats.collective, ranks);
  if (skews_s_.empty()) return;
  stats.skew_median = median(skews_s_);
  stats.skew_worst = static_cast<double>(*std::ranges::max_element(skews_s_));
  const auto most = std::ranges::max_element(last_);
  stats.last_rank = static_cast<int>(most - last_.begin());
  stats.last_calls = *most;
}

std::string to_text(const std::vector<CallStats>& calls) {
  std::string text =
      fmt::format("{:<16} {:<8} {:>12} {:>9} {:>11} {:>8} {:>11} {:>11} {:>16} {:>11} {:>7}  {}\n", "call", "dtype",
                  "bytes", "calls", "time us", "GB/s", "skew us", "worst us", "last", "predicted", "ratio", "way");
  for (const CallStats& c : calls) {
    const bool judged = c.judged > 0;
    const std::string last =
        c.last_rank < 0 ? "-"
                        : fmt::format("rank {} in {:.0f}%", c.last_rank,
                                      100.0 * static_cast<double>(c.last_calls) / static_cast<double>(c.judged));
    const std::string way = c.algorithm.empty() ? "-"
                            : c.algorithm == c.transport || c.transport.empty()
                                ? c.algorithm
                                : fmt::format("{} on {}", c.algorithm, c.transport);
    text += fmt::format(
        "{:<16} {:<8} {:>12} {:>9} {:>11} {:>8} {:>11} {:>11} {:>16} {:>11} {:>7}  {}{}\n", name_of(c.collective),
        is_message(c.collective) || c.collective == Collective::Barrier ? "-" : name_of(c.dtype), c.bytes, c.calls,
        judged ? microseconds(c.time_median) : "-", c.busbw > 0 ? fmt::format("{:.3g}", c.busbw * 1e-9) : "-",
        c.last_rank < 0 ? "-" : microseconds(c.skew_median), c.last_rank < 0 ? "-" : microseconds(c.skew_worst), last,
        c.predicted > 0 ? microseconds(c.predicted) : "-",
        judged && c.predicted > 0 ? fmt::format("{:.2f}", c.measured_by_predicted()) : "-", way,
        c.failed == 0 ? "" : fmt::format(", {} failed", c.failed));
  }
  return text;
}

}  // namespace sinew
