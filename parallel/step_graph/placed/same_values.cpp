#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>

namespace sinew::parallel {
namespace {

/// Numbers tensors. Two tensors, even of two graphs, get the same number if they are the same as a whole.
class Numbers {
 public:
  std::int32_t of(const std::string& what) { return known_.try_emplace(what, std::ssize(known_)).first->second; }

 private:
  std::map<std::string, std::int32_t> known_;
};

/// The tensors of each signal and of each gate, as text.
struct Ends {
  std::map<std::string, std::string> signals, gates;
};

Ends ends_of(const StepGraph& graph, const Factorisation& mesh, Numbers& numbers) {
  std::vector<std::int32_t> number(graph.tensors.size(), -1);
  const auto at = [&](TensorId t) -> std::int32_t& { return number[static_cast<std::size_t>(t)]; };
  Ends ends;
  for (const Node& node : graph.nodes) {
    std::vector<std::int32_t> operands;
    for (const TensorId t : node.operands) operands.push_back(at(t));
    std::string held;
    for (std::size_t i = 0; i < node.tensors.size(); ++i) {
      const TensorId t = node.tensors[i];
      const StepTensor& tensor = graph.tensors[static_cast<std::size_t>(t)];
      if (node.kind == NodeKind::Signal) at(t) = numbers.of("signal " + tensor.name);
      if (node.kind == NodeKind::Compute) {
        const ComputeRule& r = node.rule;
        at(t) = numbers.of(fmt::format("{} {} {} {} {} {} {}", node.name, r.labels, r.function, name_of(r.combines),
                                       r.extents, operands, i));
      } else if (!operands.empty()) {
        at(t) = operands.front();
      }
      held += fmt::format(" {} ({} {}), {};", at(t), name_of(tensor.dtype), tensor.shape,
                          normal_form(spec_of(tensor), mesh).to_string());
    }
    if (node.kind == NodeKind::Signal) ends.signals[node.name] += held;
    if (node.kind == NodeKind::Gate) ends.gates[node.name] += held;
  }
  return ends;
}

std::string difference(std::string_view kind, const std::map<std::string, std::string>& before,
                       const std::map<std::string, std::string>& after) {
  for (const auto& [name, held] : before) {
    const auto found = after.find(name);
    if (found == after.end()) return fmt::format("{} {}: it is gone", kind, name);
    if (found->second != held) return fmt::format("{} {}: found{} expected{}", kind, name, found->second, held);
  }
  for (const auto& [name, held] : after) {
    if (!before.contains(name)) return fmt::format("{} {}: it was not there", kind, name);
  }
  return {};
}

}  // namespace

std::string same_values(const StepGraph& before, const StepGraph& after, const Factorisation& mesh) {
  Numbers numbers;
  const Ends was = ends_of(before, mesh, numbers), is = ends_of(after, mesh, numbers);
  const std::string wrong = difference("signal", was.signals, is.signals);
  return wrong.empty() ? difference("gate", was.gates, is.gates) : wrong;
}

}  // namespace sinew::parallel
