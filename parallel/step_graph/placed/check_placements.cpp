#include <algorithm>

#include <fmt/format.h>

#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/validity.hpp>
#include <sinew/parallel/step_graph/placed/bound_rule.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {
namespace {

/// Returns whether the placement along `axis` comes after all others that cut the same dimension. Only such a placement
/// can change.
bool is_innermost(const StepTensor& tensor, std::string_view axis) {
  const auto& entries = tensor.placements.entries();
  const auto mine = std::ranges::find(entries, axis, &Placements::Entry::axis);
  return mine == entries.end() || std::none_of(mine + 1, entries.end(), [&](const auto& later) {
           return is_ordered(mine->placement, later.placement, tensor.dtype);
         });
}

/// The axes that cut that dimension, outermost first.
std::string axes_cutting(const StepTensor& tensor, int dim, const Factorisation& mesh) {
  std::string axes;
  for (const auto& [axis, placement] : tensor.placements.entries()) {
    const auto* shard = std::get_if<Shard>(&placement);
    if (shard != nullptr && shard->dim == dim && mesh.size(axis) > 1) axes += (axes.empty() ? "" : "-") + axis;
  }
  return axes;
}

class PlacementChecker {
 public:
  PlacementChecker(const StepGraph& graph, const Factorisation& mesh)
      : graph_(graph), mesh_(mesh), made_(graph.tensors.size(), false) {}

  std::string run() {
    for (const Node& node : graph_.nodes) {
      const std::string wrong = look_at(node);
      if (!wrong.empty()) return fmt::format("{}: {}", text(node), wrong);
    }
    return {};
  }

 private:
  static std::string text(const Node& node) {
    return is_exchange(node.kind) ? fmt::format("{} {}", name_of(node.kind), node.exchange)
                                  : fmt::format("{} {}", name_of(node.kind), node.name);
  }
  const StepTensor& tensor(TensorId t) const { return graph_.tensors[static_cast<std::size_t>(t)]; }

  std::string look_at(const Node& node) {
    for (const auto* ids : {&node.operands, &node.tensors}) {
      for (const TensorId t : *ids) {
        if (t < 0 || t >= std::ssize(graph_.tensors)) return fmt::format("there is no tensor {}", t);
      }
    }
    if (node.kind == NodeKind::Wait || node.kind == NodeKind::Free) return "not expected before computes are lowered";
    if (node.kind == NodeKind::Gate) return read(node.tensors);
    std::string wrong = read(node.operands);
    if (wrong.empty()) wrong = make(node.tensors);
    if (!wrong.empty() || node.kind == NodeKind::Signal) return wrong;
    return node.kind == NodeKind::Compute ? compute(node) : move(node);
  }

  std::string read(const std::vector<TensorId>& tensors) const {
    for (const TensorId t : tensors) {
      if (!made_[static_cast<std::size_t>(t)]) return fmt::format("'{}' is not made yet", tensor(t).name);
    }
    return {};
  }

  std::string make(const std::vector<TensorId>& tensors) {
    for (const TensorId t : tensors) {
      if (made_[static_cast<std::size_t>(t)]) return fmt::format("'{}' is made twice", tensor(t).name);
      made_[static_cast<std::size_t>(t)] = true;
      const TensorSpec spec = spec_of(tensor(t));
      const std::string wrong = fault_of(spec, mesh_);
      if (!wrong.empty()) return fmt::format("{}: {}", spec.to_string(), wrong);
    }
    return {};
  }

  std::string compute(const Node& node) const {
    const BoundRule rule(graph_, node);
    if (!rule.fault().empty()) return rule.fault();
    std::vector<TensorId> all = node.operands;
    all.insert(all.end(), node.tensors.begin(), node.tensors.end());
    for (const Axis& axis : mesh_.axes()) {
      if (axis.size == 1) continue;
      std::vector<Placement> placements;
      for (const TensorId t : all) placements.push_back(tensor(t).placements.along(axis.name));
      std::string wrong = rule.fault_of(placements, axis);
      if (!wrong.empty()) return wrong;
    }
    return order_of_cuts(rule, all);
  }

  /// Checks that tensors with a common label are cut in it along the same axes, in the same order.
  std::string order_of_cuts(const BoundRule& rule, const std::vector<TensorId>& all) const {
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        for (const auto& [mine, theirs] : rule.shared_dims(a, b)) {
          const std::string found = axes_cutting(tensor(all[a]), mine, mesh_),
                            expected = axes_cutting(tensor(all[b]), theirs, mesh_);
          if (found != expected)
            return fmt::format("'{}' is cut along {}, expected {} as '{}' is", tensor(all[a]).name, found, expected,
                               tensor(all[b]).name);
        }
      }
    }
    return {};
  }

  std::string move(const Node& node) const {
    if (node.operands.size() != 1 || node.tensors.size() != 1)
      return fmt::format("makes {} tensors of {}, expected one of one", node.tensors.size(), node.operands.size());
    const StepTensor &from = tensor(node.operands[0]), &to = tensor(node.tensors[0]);
    if (from.shape != to.shape || from.dtype != to.dtype)
      return fmt::format("'{}' has another shape or dtype than '{}'", to.name, from.name);
    if (std::ranges::find(mesh_.axes(), node.axes, &Axis::name) == mesh_.axes().end())
      return fmt::format("'{}' is no axis of the mesh {}", node.axes, mesh_.to_string());
    const int ranks = mesh_.size(node.axes);
    const Placement was = plain(from.placements.along(node.axes), from.shape, ranks),
                    is = plain(to.placements.along(node.axes), to.shape, ranks);
    if (kind_of_move(was, is) != node.kind)
      return fmt::format("'{}' along {}: found {} of {}, which is no {}", to.name, node.axes, to_string(is),
                         to_string(was), name_of(node.kind));
    TensorSpec a = spec_of(from), b = spec_of(to);
    a.placements = normal_form({a.name, a.dtype, a.shape, a.placements.with(node.axes, Replicate{})}, mesh_);
    b.placements = normal_form({b.name, b.dtype, b.shape, b.placements.with(node.axes, Replicate{})}, mesh_);
    if (a.placements != b.placements)
      return fmt::format("'{}' is {} along other axes, expected {} as '{}' is", to.name, b.placements.to_string(),
                         a.placements.to_string(), from.name);
    for (const StepTensor* t : {&from, &to}) {
      if (!is_innermost(*t, node.axes))
        return fmt::format("'{}' is {}: only what is cut last along a dimension can change", t->name,
                           t->placements.to_string());
    }
    return {};
  }

  const StepGraph& graph_;
  const Factorisation& mesh_;
  std::vector<bool> made_;
};

}  // namespace

std::string check_placements(const StepGraph& graph, const Factorisation& mesh) {
  return PlacementChecker(graph, mesh).run();
}

}  // namespace sinew::parallel
