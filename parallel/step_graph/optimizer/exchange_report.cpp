#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/config.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {
namespace {

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string exchanged_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string traffic_text(const AxesTraffic& traffic, bool has_times) {
  return fmt::format("{} exchange{}, {}{}", traffic.exchanges, traffic.exchanges == 1 ? "" : "s",
                     exchanged_text(traffic.bytes), has_times ? ", " + time_text(traffic.seconds) : "");
}

/// "w2.grad", "w2.grad and w1.grad", "w2.grad and 2 others".
std::string tensors_text(const StepGraph& graph, const std::vector<TensorId>& tensors) {
  const auto name = [&](std::size_t i) -> const std::string& {
    return graph.tensors[static_cast<std::size_t>(tensors[i])].name;
  };
  if (tensors.empty()) return "nothing";
  if (tensors.size() == 1) return name(0);
  if (tensors.size() == 2) return fmt::format("{} and {}", name(0), name(1));
  return fmt::format("{} and {} others", name(0), tensors.size() - 1);
}

std::string saved_text(const ExchangeEntry& entry) {
  if (entry.seconds == 0) return "";
  if (entry.change == ExchangeChange::Moved) return fmt::format(", up to {} hidden", time_text(entry.seconds));
  return entry.seconds > 0 ? fmt::format(", {} saved", time_text(entry.seconds))
                           : fmt::format(", {} more", time_text(-entry.seconds));
}

}  // namespace

std::int64_t ExchangePrices::sent(NodeKind kind, std::string_view axes, std::int64_t bytes) const {
  if (!ranks || is_message(kind)) return bytes;
  const std::int64_t n = ranks(axes);
  if (kind == NodeKind::AllToAll) return bytes / n * (n - 1);
  return (kind == NodeKind::AllReduce ? 2 : 1) * (n - 1) * bytes;
}

std::string_view name_of(ExchangeChange change) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"removed", "added", "merged", "moved"};
  return kNames[static_cast<std::size_t>(change)];
}

TrafficByAxes traffic_by_axes(const StepGraph& graph, const ExchangePrices& prices) {
  TrafficByAxes traffic;
  for (const Node& node : graph.nodes) {
    if (!is_exchange(node.kind) || node.kind == NodeKind::Receive) continue;
    AxesTraffic& along = traffic[node.axes];
    const std::int64_t bytes = graph.bytes(node);
    ++along.exchanges;
    along.bytes += prices.sent(node.kind, node.axes, bytes);
    if (prices.seconds) along.seconds += prices.seconds(node.kind, node.axes, bytes);
  }
  return traffic;
}

std::int64_t ExchangeReport::count(ExchangeChange change) const noexcept {
  return std::ranges::count(entries, change, &ExchangeEntry::change);
}

std::string ExchangeReport::to_string(const StepGraph& graph) const {
  std::string text;
  TrafficByAxes all = before;
  all.insert(after.begin(), after.end());
  const auto along = [](const TrafficByAxes& traffic, const std::string& axes) {
    const auto found = traffic.find(axes);
    return found == traffic.end() ? AxesTraffic{} : found->second;
  };
  for (const auto& [axes, traffic] : all) {
    const AxesTraffic was = along(before, axes), is = along(after, axes);
    text += fmt::format("{}: {}", axes, traffic_text(was, has_times));
    if (was != is) text += fmt::format(" -> {}", traffic_text(is, has_times));
    text += "\n";
  }
  for (const ExchangeEntry& entry : entries) {
    text += fmt::format("{} {} over {} of {} ({}): {}{}\n", name_of(entry.change), name_of(entry.kind), entry.axes,
                        tensors_text(graph, entry.tensors), exchanged_text(entry.bytes), entry.why,
                        has_times ? saved_text(entry) : "");
  }
  return text;
}

void ExchangeReport::append(ExchangeReport later) {
  entries.insert(entries.end(), std::make_move_iterator(later.entries.begin()),
                 std::make_move_iterator(later.entries.end()));
  TrafficByAxes whole = std::move(later.before);  // plus what this report says is gone already
  for (const auto& [axes, was] : before) {
    const AxesTraffic is = after[axes];
    AxesTraffic& sum = whole[axes];
    sum.exchanges += was.exchanges - is.exchanges;
    sum.bytes += was.bytes - is.bytes;
    sum.seconds += was.seconds - is.seconds;
  }
  before = std::move(whole);
  after = std::move(later.after);
  has_times = has_times || later.has_times;
}

}  // namespace sinew::parallel
