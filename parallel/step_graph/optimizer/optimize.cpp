#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/optimizer/moved.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>
#include <sinew/parallel/step_graph/optimizer/placed_changes.hpp>
#include <sinew/parallel/step_graph/optimizer/repeated.hpp>
#include <sinew/parallel/step_graph/optimizer/same_reads.hpp>
#include <sinew/parallel/step_graph/optimizer/saved.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/lower.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>

namespace sinew::parallel {
namespace {

using ReportEntries = std::vector<ExchangeEntry>;

void require_runnable(const StepGraph& graph) {
  const std::string wrong = check(graph);
  if (!wrong.empty()) throw Error(Code::InvalidArgument, "step graph: " + wrong);
}

/// Takes a changed graph and its entries, if it can run and gives the engine the same tensors.
bool take_if_proved(StepGraph& graph, StepGraph changed, ReportEntries& entries, ReportEntries more,
                    const std::optional<std::vector<TensorId>>& read_later) {
  if (!check(changed).empty() || !same_reads(graph, changed, read_later).empty()) return false;
  graph = std::move(changed);
  entries.insert(entries.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return true;
}

void merge_neighbours(StepGraph& graph, const ExchangeOptions& options,
                      const std::optional<std::vector<TensorId>>& read_later, ReportEntries& entries) {
  if (std::holds_alternative<NoBuckets>(options.merge)) return;
  StepGraph merged = bucket(graph, options.merge);
  ReportEntries more;
  report_merged(graph, merged, options.prices, more);
  take_if_proved(graph, std::move(merged), entries, std::move(more), read_later);
}

void move_exchanges(StepGraph& graph, const StepGraph& given, const ExchangeOptions& options,
                    const std::optional<std::vector<TensorId>>& read_later, ReportEntries& entries) {
  if (!options.moves) return;
  ReportEntries more;
  StepGraph moved = moved_ahead(given, graph, options.most_in_flight, options.prices, more);
  take_if_proved(graph, std::move(moved), entries, std::move(more), read_later);
}

}  // namespace

OptimizedGraph optimize_exchanges(StepGraph graph, const ExchangeOptions& options) {
  require_runnable(graph);
  ExchangeReport report{.before = traffic_by_axes(graph, options.prices),
                        .has_times = static_cast<bool>(options.prices.seconds)};
  if (options.removes) {
    ReportEntries more;
    StepGraph fewer = without_repeated_exchanges(graph, options.read_later, options.prices, more);
    if (!more.empty()) take_if_proved(graph, std::move(fewer), report.entries, std::move(more), options.read_later);
  }
  merge_neighbours(graph, options, options.read_later, report.entries);
  const StepGraph given = graph;
  move_exchanges(graph, given, options, options.read_later, report.entries);
  report.after = traffic_by_axes(graph, options.prices);
  return {std::move(graph), std::move(report)};
}

OptimizedComputes optimize_exchanges(StepGraph graph, const Factorisation& mesh, const ExchangeOptions& options) {
  ExchangeReport report{.before = placed_traffic(graph, mesh, options.prices),
                        .has_times = static_cast<bool>(options.prices.seconds)};
  if (options.removes) {
    StepGraph fewer = remove_redundant_exchanges(graph, mesh);
    report.entries = placed_changes(graph, fewer, mesh, options.prices);
    graph = std::move(fewer);
  }
  if (!options.backward.empty()) {
    ReportEntries more;
    StepGraph again = gathered_again(graph, mesh, options.backward, options.saved_bytes, options.prices, more);
    if (check_placements(again, mesh).empty() && same_values(graph, again, mesh).empty()) {
      graph = std::move(again);
      report.entries.insert(report.entries.end(), more.begin(), more.end());
    }
  }
  const StepGraph given = lower(graph);
  require_runnable(given);
  const std::optional<std::vector<TensorId>> nothing(std::in_place);  // the engine reads at gates only
  StepGraph lowered = given;
  // Exchanges that can start early have more neighbours.
  if (options.moves) take_if_proved(lowered, wait_late(issue_early(given)), report.entries, {}, nothing);
  merge_neighbours(lowered, options, nothing, report.entries);
  take_if_proved(lowered, with_frees(lowered), report.entries, {}, nothing);
  move_exchanges(lowered, given, options, nothing, report.entries);
  report.after = placed_traffic(lowered, mesh, options.prices);
  return {std::move(graph), std::move(lowered), std::move(report)};
}

}  // namespace sinew::parallel
