#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/table.hpp>
#include <sinew/parallel/distributed_tensor/byte_routes.hpp>
#include <sinew/parallel/distributed_tensor/candidates.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>
#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/step_graph/placed/labels.hpp>

namespace sinew::parallel {
namespace {

TensorSpec with_placements(const TensorSpec& spec, const Placements& placements) {
  TensorSpec other = spec;
  other.placements = placements;
  return other;
}

Operation in_normal_form(Operation operation, const Factorisation& mesh) {
  for (TensorSpec& operand : operation.operands) {
    require_valid(operand, mesh);
    operand.placements = normal_form(operand, mesh);
  }
  if (operation.has_preferred)
    operation.preferred = normal_form(with_placements(operation.results.front(), operation.preferred), mesh);
  return operation;
}

/// Bytes of the reduce_scatters of results that become Partial.
std::int64_t pending_of(const Operation& op, const PlacedOperation& candidate, const Factorisation& mesh) {
  std::int64_t bytes = 0;
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    for (const auto& [axis, placement] : candidate.results[r].entries()) {
      if (!std::holds_alternative<Partial>(placement)) continue;
      const TensorSpec spec = with_placements(op.results[r], candidate.results[r]);
      bytes += bytes_of_move(spec, axis, placement, Replicate{}, mesh, leaders_along(axis, mesh)) / 2;
    }
  }
  return bytes;
}

/// The axes along which the first result is cut at a label that the operation exchanges over.
std::vector<std::string> exchange_axes_in(const Operation& op, const Placements& result) {
  std::vector<std::string> axes;
  const std::vector<std::string> dims = dims_of(split_labels(op.rule.labels).results.front());
  for (const auto& [axis, placement] : result.entries()) {
    const auto* shard = std::get_if<Shard>(&placement);
    if (shard == nullptr) continue;
    const char label = dims[static_cast<std::size_t>(shard->dim)].front();
    if (op.exchanged_labels.find(label) != std::string::npos) axes.push_back(axis);
  }
  return axes;
}

/// Bytes of the all_reduces within the operation.
std::int64_t exchanged_of(const Operation& op, const PlacedOperation& candidate, const Factorisation& mesh) {
  if (op.exchanged == 0) return 0;
  const std::vector<std::string> axes = exchange_axes_in(op, candidate.results.front());
  if (axes.empty()) return 0;
  // The numbers form a tensor of the first result's other dimensions.
  const std::vector<std::string> dims = dims_of(split_labels(op.rule.labels).results.front());
  TensorSpec numbers{{}, op.exchanged_dtype, op.results.front().shape, {}};
  std::vector<Placements::Entry> entries;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (op.exchanged_labels.find(dims[d].front()) != std::string::npos) numbers.shape[d] = 1;
  }
  for (const auto& entry : candidate.results.front().entries()) {
    if (std::ranges::find(axes, entry.axis) == axes.end() && !std::holds_alternative<Partial>(entry.placement))
      entries.push_back(entry);
  }
  numbers.placements = Placements(std::move(entries));
  std::int64_t bytes = 0;
  for (const std::string& axis : axes)
    bytes += bytes_of_move(numbers, axis, Partial{}, Replicate{}, mesh, leaders_along(axis, mesh));
  return op.exchanged * bytes;
}

bool is_preferred(const Operation& op, const PlacedOperation& candidate, const Factorisation& mesh) {
  if (!op.has_preferred) return false;
  std::vector<Placements::Entry> entries;
  for (const auto& entry : op.preferred.entries()) {
    if (!std::holds_alternative<Partial>(entry.placement)) entries.push_back(entry);
  }
  return normal_form(with_placements(op.results.front(), Placements(std::move(entries))), mesh) ==
         candidate.results.front();
}

bool operands_stay(const Operation& op, const PlacedOperation& candidate) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (candidate.operands[i] != op.operands[i].placements) return false;
  }
  return true;
}

/// Fills in what the candidates send, and returns the routes of each operand.
std::vector<ByteRoutes> price(const Operation& op, std::vector<PlacedOperation>& candidates,
                              const Factorisation& mesh) {
  std::vector<ByteRoutes> routes;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    std::vector<Placements> targets;
    for (const PlacedOperation& candidate : candidates) {
      if (std::ranges::find(targets, candidate.operands[i]) == targets.end()) targets.push_back(candidate.operands[i]);
    }
    routes.emplace_back(op.operands[i], targets, mesh);
  }
  for (PlacedOperation& candidate : candidates) {
    for (std::size_t i = 0; i < routes.size(); ++i) {
      const ByteRoute& route = routes[i].route(candidate.operands[i]);
      candidate.moved_bytes += route.bytes;
      candidate.moved_operands += route.plan.steps.empty() ? 0 : 1;
    }
    candidate.exchanged_bytes = exchanged_of(op, candidate, mesh);
    candidate.pending_bytes = pending_of(op, candidate, mesh);
  }
  return routes;
}

/// The order of candidates: the smallest is taken.
std::tuple<std::int64_t, bool, std::int64_t, std::int64_t> order_key(const Operation& op,
                                                                     const PlacedOperation& candidate,
                                                                     const Factorisation& mesh) {
  const std::int64_t sent = candidate.sent_bytes();
  return {sent == 0 ? 0 : sent + candidate.pending_bytes, !is_preferred(op, candidate, mesh), candidate.moved_operands,
          candidate.pending_bytes};
}

void keep_route(OperationPlan& plan, const ByteRoute& route) {
  plan.moves.push_back(route.plan);
  plan.bytes.push_back(route.bytes);
}

/// All that a plan depends on.
std::string text_of_operation(const Operation& op, const Factorisation& mesh) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} on {}", op.name, op.rule.labels, op.rule.whole,
                  fmt::join(op.rule.linear, ","), name_of(op.rule.combines), op.exchanged_labels, op.exchanged,
                  name_of(op.exchanged_dtype), op.has_preferred, op.preferred.to_string(), mesh.to_string());
  for (const auto& [label, extent] : op.rule.extents) text += fmt::format(" {}{}", label, extent);
  for (const auto* specs : {&op.operands, &op.results}) {
    for (const TensorSpec& spec : *specs) text += fmt::format("\n{} {}", spec.to_string(), spec.placements.to_string());
  }
  return text;
}

/// The plan without rejected candidates.
OperationPlan found_plan(const Operation& asked, const Factorisation& mesh) {
  OperationPlan plan;
  plan.operation = in_normal_form(asked, mesh);
  const Operation& operation = plan.operation;
  std::vector<PlacedOperation> candidates = candidates_of(operation, mesh);
  // If the operands can stay, no other candidate is better, and their routes need not be searched.
  std::vector<PlacedOperation> free;
  for (const PlacedOperation& candidate : candidates) {
    if (operands_stay(operation, candidate) && exchanged_of(operation, candidate, mesh) == 0 &&
        (!operation.has_preferred || is_preferred(operation, candidate, mesh)))
      free.push_back(candidate);
  }
  if (!free.empty()) candidates = std::move(free);
  const std::vector<ByteRoutes> routes = price(operation, candidates, mesh);
  plan.chosen = *std::ranges::min_element(
      candidates, {}, [&](const PlacedOperation& candidate) { return order_key(operation, candidate, mesh); });
  for (std::size_t i = 0; i < routes.size(); ++i) keep_route(plan, routes[i].route(plan.chosen.operands[i]));
  return plan;
}

std::string steps_text(const Redistribution& move) {
  if (move.steps.empty()) return move.from.placements.to_string() + ": it stays";
  std::vector<std::string> steps;
  for (const Transition& step : move.steps) {
    const bool sends = step.collective != Collective::Barrier;
    steps.push_back(fmt::format("{}: {} -> {} by {}", step.axis, to_string(step.from), to_string(step.to),
                                sends ? std::string(name_of(step.collective)) : "a copy"));
  }
  return fmt::format("{}", fmt::join(steps, ", "));
}

}  // namespace

OperationPlan plan_operation(const Operation& asked, const Factorisation& mesh) {
  OperationPlan plan;
  plan.operation = in_normal_form(asked, mesh);
  const Operation& operation = plan.operation;
  std::vector<PlacedOperation> candidates = candidates_of(operation, mesh);
  const std::vector<ByteRoutes> routes = price(operation, candidates, mesh);
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t c) { return order_key(operation, candidates[c], mesh); });
  plan.chosen = candidates[order.front()];
  for (std::size_t i = 1; i < order.size(); ++i) plan.rejected.push_back(std::move(candidates[order[i]]));
  for (std::size_t i = 0; i < routes.size(); ++i) keep_route(plan, routes[i].route(plan.chosen.operands[i]));
  return plan;
}

std::shared_ptr<const OperationPlan> plan_to_run(const Operation& operation, const Factorisation& mesh) {
  constexpr std::size_t kMost = 1024;
  thread_local std::unordered_map<std::string, std::shared_ptr<const OperationPlan>> known;
  const std::string key = text_of_operation(operation, mesh);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() == kMost) known.clear();
  return known.emplace(key, std::make_shared<const OperationPlan>(found_plan(operation, mesh))).first->second;
}

std::vector<std::string> OperationPlan::exchange_axes() const {
  return operation.exchanged == 0 ? std::vector<std::string>{} : exchange_axes_in(operation, chosen.results.front());
}

std::string OperationPlan::explain() const {
  std::string text = fmt::format("{} of", operation.name);
  for (std::size_t i = 0; i < operation.operands.size(); ++i)
    text += (i == 0 ? " " : " and ") + operation.operands[i].to_string();
  text += fmt::format(", rule {}\n", operation.rule.labels);
  Table moved({{}, {}, {.align = Align::Right}}, "  ");
  for (std::size_t i = 0; i < moves.size(); ++i)
    moved.add(
        {fmt::format("operand '{}'", operation.operands[i].name), steps_text(moves[i]), fmt::format("{} B", bytes[i])});
  if (chosen.exchanged_bytes > 0)
    moved.add({"within",
               fmt::format("{} all_reduces of numbers along {}", operation.exchanged, fmt::join(exchange_axes(), ", ")),
               fmt::format("{} B", chosen.exchanged_bytes)});
  for (std::size_t r = 0; r < chosen.results.size(); ++r)
    moved.add({fmt::format("result '{}'", operation.results[r].name), chosen.results[r].to_string(), ""});
  text += moved.text();
  const bool free = chosen.sent_bytes() == 0;
  text += fmt::format("reason: {}\n", free ? "it sends nothing" : "it sends the fewest bytes");
  Table ways({{}, {.align = Align::Right}, {.align = Align::Right}, {}}, "  ");
  const auto add = [&](const PlacedOperation& way, std::string_view verdict) {
    ways.add({way.text, fmt::format("{} B sent", way.sent_bytes()),
              way.pending_bytes == 0 ? "" : fmt::format("{} B pending", way.pending_bytes), std::string(verdict)});
  };
  constexpr std::size_t kShown = 5;
  add(chosen, "chosen");
  for (std::size_t i = 0; i < std::min(kShown, rejected.size()); ++i) add(rejected[i], "rejected");
  text += ways.text();
  if (rejected.size() > kShown) text += fmt::format("  and {} more candidates\n", rejected.size() - kShown);
  return text;
}

std::string explain(const Operation& operation, const Factorisation& mesh) {
  return plan_operation(operation, mesh).explain();
}

}  // namespace sinew::parallel
