#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/step_graph/optimizer/moved.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

namespace sinew::parallel {
namespace {

/// The place of an exchange: how many gates and signals of the engine come before its start and before its wait.
struct ExchangePlace {
  std::int64_t start = 0, wait = 0;
  std::int64_t signals_at_start = 0, signals_at_wait = 0;

  bool is_hidden() const noexcept { return signals_at_wait > signals_at_start; }
};

/// By number of the exchange.
std::map<std::int32_t, ExchangePlace> places_of(const StepGraph& graph) {
  std::map<std::int32_t, ExchangePlace> places;
  std::int64_t all = 0, signals = 0;
  for (const Node& node : graph.nodes) {
    if (is_exchange(node.kind)) places[node.exchange] = {all, all, signals, signals};
    if (node.kind == NodeKind::Wait) {
      ExchangePlace& place = places[node.exchange];
      place.wait = all, place.signals_at_wait = signals;
    }
    if (node.kind == NodeKind::Signal) ++signals;
    if (node.kind == NodeKind::Signal || node.kind == NodeKind::Gate) ++all;
  }
  return places;
}

std::string moved_text(const ExchangePlace& was, const ExchangePlace& free, const ExchangePlace& is) {
  std::string text;
  const auto add = [&](std::string_view what, std::int64_t count, std::string_view than) {
    if (count <= 0) return;
    text += fmt::format("{}{} {} {}{}", text.empty() ? "" : ", ", what, count,
                        count == 1 ? "gate or signal" : "gates and signals", than);
  };
  add("starts", was.start - is.start, " earlier");
  add("is waited for", is.wait - was.wait, " later");
  if (!text.empty()) add("is held back for room by", is.start - free.start, "");
  return text;
}

}  // namespace

StepGraph moved_ahead(const StepGraph& given, StepGraph graph, std::int64_t most_in_flight,
                      const ExchangePrices& prices, std::vector<ExchangeEntry>& entries) {
  const std::map<std::int32_t, ExchangePlace> was = places_of(given);
  graph = wait_late(issue_early(std::move(graph)));
  const std::map<std::int32_t, ExchangePlace> free = places_of(graph);
  if (most_in_flight > 0) graph = limit_in_flight(std::move(graph), most_in_flight);
  const std::map<std::int32_t, ExchangePlace> is = places_of(graph);
  for (const Node& node : graph.nodes) {
    if (!is_exchange(node.kind)) continue;
    const ExchangePlace &before = was.at(node.exchange), &now = is.at(node.exchange);
    std::string text = moved_text(before, free.at(node.exchange), now);
    if (text.empty()) continue;
    const std::int64_t bytes = graph.bytes(node);
    const bool hides = now.is_hidden() && !before.is_hidden();
    entries.push_back({.change = ExchangeChange::Moved,
                       .kind = node.kind,
                       .axes = node.axes,
                       .tensors = node.tensors,
                       .why = std::move(text),
                       .bytes = prices.sent(node.kind, node.axes, bytes),
                       .seconds = hides && prices.seconds ? prices.seconds(node.kind, node.axes, bytes) : 0});
  }
  return graph;
}

void report_merged(const StepGraph& before, const StepGraph& after, const ExchangePrices& prices,
                   std::vector<ExchangeEntry>& entries) {
  // By tensor and by number of its exchange among those of this tensor: the exchange of `before`.
  std::map<std::pair<TensorId, std::int32_t>, const Node*> known;
  std::map<TensorId, std::int32_t> count;
  for (const Node& node : before.nodes) {
    if (!is_exchange(node.kind)) continue;
    for (const TensorId t : node.tensors) known[{t, count[t]++}] = &node;
  }
  count.clear();
  for (const Node& node : after.nodes) {
    if (!is_exchange(node.kind)) continue;
    std::map<std::int32_t, const Node*> parts;
    for (const TensorId t : node.tensors) {
      const Node* part = known.at({t, count[t]++});
      parts.emplace(part->exchange, part);
    }
    if (parts.size() < 2) continue;
    const std::int64_t bytes = after.bytes(node);
    double saved = 0;
    if (prices.seconds) {
      saved = -prices.seconds(node.kind, node.axes, bytes);
      for (const auto& [number, part] : parts) saved += prices.seconds(part->kind, part->axes, before.bytes(*part));
    }
    entries.push_back({.change = ExchangeChange::Merged,
                       .kind = node.kind,
                       .axes = node.axes,
                       .tensors = node.tensors,
                       .why = fmt::format("{} exchanges in one", parts.size()),
                       .bytes = prices.sent(node.kind, node.axes, bytes),
                       .seconds = saved});
  }
}

}  // namespace sinew::parallel
