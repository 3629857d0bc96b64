#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <sinew/collectives/metrics/open_metrics.hpp>
#include <sinew/core/base/version.hpp>

namespace sinew {
namespace {

/// A value of a label. Bytes outside of ASCII are shown as '?', since a name may hold text that is not UTF-8.
std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += static_cast<unsigned char>(c) < 0x80 ? c : '?';
    }
  }
  return escaped;
}

class MetricsWriter {
 public:
  /// Begins a family. `unit`: empty, or the end of `name`.
  void family(std::string_view name, std::string_view type, std::string_view unit, std::string_view help) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    if (!unit.empty()) text_ += fmt::format("# UNIT {} {}\n", name, unit);
  }
  template <class Value>
  void sample(std::string_view name, std::string_view labels, Value value) {
    text_ += fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  std::string end() { return std::move(text_) + "# EOF\n"; }

 private:
  std::string text_;
};

std::string labels_of(const RankMetrics& of) {
  return fmt::format("host=\"{}\",world=\"{}\",rank=\"{}\"", label_value(of.host), of.world, of.rank);
}

std::string labels_of(const RankMetrics& of, const CountersSeen& counters) {
  return fmt::format("{},communicator=\"{}\",collective=\"{}\",transport=\"{}\"", labels_of(of),
                     label_value(counters.communicator), label_value(counters.collective),
                     label_value(counters.transport));
}

void add_counters(MetricsWriter& to, std::span<const RankMetrics> ranks, std::string_view name,
                  std::uint64_t CountersSeen::*counted) {
  for (const RankMetrics& of : ranks) {
    for (const CountersSeen& c : of.counters) to.sample(name, labels_of(of, c), c.*counted);
  }
}

}  // namespace

RankMetrics read_metrics(const RecordPage& page, std::int64_t now) {
  const RecordReader reader(&page);
  RankMetrics of{.rank = page.rank.load(std::memory_order_relaxed), .counters = reader.counters()};
  for (std::size_t i = 0; i < RecordPage::kRecords; ++i) {
    const auto call = reader.at(i);
    if (!call || call->completed != 0) continue;
    ++of.open_calls;
    of.longest_open_s = std::max(of.longest_open_s, static_cast<double>(now - call->entered) * 1e-9);
  }
  return of;
}

std::string open_metrics_text(std::span<const RankMetrics> ranks) {
  MetricsWriter to;
  to.family("sinew_build", "info", "", "The version of sinew that runs the ranks.");
  to.sample("sinew_build_info", fmt::format("version=\"{}\"", label_value(version())), 1);
  to.family("sinew_rank_up", "gauge", "", "1 while the rank is in its World, 0 once it has left or was lost.");
  for (const RankMetrics& of : ranks) to.sample("sinew_rank_up", labels_of(of), of.is_in_world ? 1 : 0);
  to.family("sinew_open_calls", "gauge", "", "Calls that have begun and not ended, of the latest 1024.");
  for (const RankMetrics& of : ranks) to.sample("sinew_open_calls", labels_of(of), of.open_calls);
  to.family("sinew_longest_open_call_seconds", "gauge", "seconds",
            "Time since the oldest call began that has not ended.");
  for (const RankMetrics& of : ranks)
    to.sample("sinew_longest_open_call_seconds", labels_of(of), fmt::format("{:.3f}", of.longest_open_s));
  to.family("sinew_calls", "counter", "", "Calls that have begun. A group of messages counts each message.");
  add_counters(to, ranks, "sinew_calls_total", &CountersSeen::calls);
  to.family("sinew_call_bytes", "counter", "bytes", "Size of the calls that have begun: that of the larger buffer.");
  add_counters(to, ranks, "sinew_call_bytes_total", &CountersSeen::bytes);
  to.family("sinew_failed_calls", "counter", "", "Calls that have ended with an error.");
  add_counters(to, ranks, "sinew_failed_calls_total", &CountersSeen::failed);
  return to.end();
}

}  // namespace sinew
