#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/step_graph/optimizer/same_reads.hpp>
#include <sinew/parallel/step_graph/optimizer/tensor_form.hpp>

namespace sinew::parallel {
namespace {

/// The node that wrote a tensor last, as far as two graphs can be compared by it.
struct Origin {
  NodeKind kind = NodeKind::Gate;  // a gate stands for the value before the step
  std::string_view name{};         // of a signal, or the axes of an exchange
  std::int64_t number = 0;         // which of the signals of this name, or the operand of an exchange
  std::size_t of = 0;              // of an exchange: a hash of what it was made from
  friend bool operator==(const Origin&, const Origin&) = default;

  std::size_t hash() const noexcept {
    std::size_t seed = std::hash<std::string_view>()(name);
    for (const std::size_t value : {static_cast<std::size_t>(kind), static_cast<std::size_t>(number), of})
      seed ^= value + 0x9e3779b97f4a7c15U + (seed << 6) + (seed >> 2);
    return seed;
  }
  std::string text() const {
    if (kind == NodeKind::Gate) return "before the step";
    return kind == NodeKind::Signal ? fmt::format("signal {}", name) : fmt::format("{} over {}", name_of(kind), name);
  }
};

/// A tensor as the engine finds it.
struct FoundTensor {
  TensorId tensor = -1;
  Origin origin;
  TensorForm form;
};
struct GateRead {
  bool needs_whole = true;
  std::vector<FoundTensor> tensors;
};
/// By gate, and by the number of its occurrence.
using GateReads = std::map<std::pair<std::string_view, int>, GateRead>;

Origin made_by(const Node& node, TensorId operand, const FoundTensor& from) {
  std::size_t of = from.origin.hash();
  for (const AxisBits bits : {from.form.whole, from.form.parts, from.form.summed}) of = of * 31 + bits;
  return {node.kind, node.axes, operand, of};
}

GateReads reads_of(const StepGraph& graph, const AxisSets& axes,
                   const std::optional<std::vector<TensorId>>& read_later) {
  std::vector<FoundTensor> now(graph.tensors.size());
  for (std::size_t t = 0; t < now.size(); ++t) now[t].tensor = static_cast<TensorId>(t);
  std::map<std::string_view, int> gates, signals;
  GateReads reads;
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::Gate) {
      GateRead& read = reads[{node.name, gates[node.name]++}];
      read.needs_whole = !node.parts;
      for (const TensorId t : node.tensors) read.tensors.push_back(now[at(t)]);
    } else if (node.kind == NodeKind::Signal) {
      const int number = signals[node.name]++;
      for (const TensorId t : node.tensors) {
        if (!node.unchanged) now[at(t)] = {t, {NodeKind::Signal, node.name, number}, {}};
      }
    } else if (!node.operands.empty()) {
      for (std::size_t i = 0; i < node.tensors.size(); ++i) {
        const TensorId from = node.operands[i], to = node.tensors[i];
        now[at(to)] = {to, made_by(node, from, now[at(from)]), {}};
      }
    } else if (is_exchange(node.kind) || node.kind == NodeKind::Free) {
      const AxisBits along = axes.bits_of(node.axes);
      for (const TensorId t : node.tensors) {
        FoundTensor& found = now[at(t)];
        if (node.kind == NodeKind::Receive || node.kind == NodeKind::AllToAll)
          found.origin = made_by(node, node.match, found);
        found.form.apply(node, along);
      }
    }
  }
  GateRead& later = reads[{"after the step", -1}];
  if (!read_later) {
    later.tensors = std::move(now);
  } else {
    for (const TensorId t : *read_later) later.tensors.push_back(now[at(t)]);
  }
  return reads;
}

/// Why the engine cannot take the tensor `is` in the place of `was`. Empty: it can.
std::string read_fault(const FoundTensor& was, const FoundTensor& is, bool needs_whole) {
  if (is.tensor != was.tensor) return "is not read any more";
  if (is.origin != was.origin) return fmt::format("comes from {}, expected {}", is.origin.text(), was.origin.text());
  if (is.form.summed != was.form.summed) return "is summed over other axes";
  if (needs_whole && !TensorForm::has(is.form.whole, was.form.whole)) return "is not whole any more";
  return {};
}

}  // namespace

std::string same_reads(const StepGraph& before, const StepGraph& after,
                       const std::optional<std::vector<TensorId>>& read_later) {
  AxisSets axes(before);
  for (const Node& node : after.nodes) axes.add(node.axes);
  if (!axes.fit()) return "the graphs have too many axes to compare them";
  const GateReads was = reads_of(before, axes, read_later), is = reads_of(after, axes, read_later);
  if (was.size() != is.size()) return fmt::format("found {} gates, expected {}", is.size(), was.size());
  for (const auto& [gate, expected] : was) {
    const auto found = is.find(gate);
    if (found == is.end() || found->second.tensors.size() < expected.tensors.size())
      return fmt::format("gate {}: it is gone, or reads fewer tensors", gate.first);
    for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
      const FoundTensor& tensor = expected.tensors[i];
      const std::string fault = read_fault(tensor, found->second.tensors[i], expected.needs_whole);
      if (!fault.empty())
        return fmt::format("gate {}: '{}' {}", gate.first, before.tensors[at(tensor.tensor)].name, fault);
    }
  }
  return {};
}

}  // namespace sinew::parallel
