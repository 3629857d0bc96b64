#include <algorithm>

#include <sinew/parallel/step_graph/passes/supply.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {
namespace {

class Supplier {
 public:
  Supplier(const StepTensor& tensor, const Axis& axis, const Factorisation& mesh, Placement made)
      : tensor_(tensor), axis_(axis), mesh_(mesh), at_(std::move(made)) {}

  /// Adds a move to a placement. Later moves start there if the tensor is whole there, or was Partial until now.
  void go(const Placement& to) {
    if (to == at_ || std::ranges::any_of(supply_.moves, [&](const SupplyStep& m) { return m.to == to; })) return;
    const auto kind = kind_of_move(at_, to);
    if (!kind) {
      ++supply_.cost.impossible;
      return;
    }
    supply_.moves.push_back({at_, to});
    supply_.cost += {.bytes = sent_by_move(tensor_, axis_.name, at_, to, mesh_),
                     .exchanges = kind == NodeKind::Split ? 0 : 1,
                     .splits = kind == NodeKind::Split ? 1 : 0};
    if (std::holds_alternative<Replicate>(to) || std::holds_alternative<Partial>(at_)) at_ = to;
  }

  Supply finish() && { return std::move(supply_); }

 private:
  const StepTensor& tensor_;
  const Axis& axis_;
  const Factorisation& mesh_;
  Placement at_;  // where the next move starts
  Supply supply_;
};

}  // namespace

Supply supply(const StepTensor& tensor, const Axis& axis, const Factorisation& mesh, const Placement& made,
              const std::vector<Placement>& needed) {
  const auto by_way_of = [&](bool whole) {
    Supplier supplier(tensor, axis, mesh, made);
    if (whole) supplier.go(Replicate{});
    for (const Placement& to : needed) {
      if (to != made) supplier.go(to);
    }
    return std::move(supplier).finish();
  };
  if (std::ranges::find(needed, Placement(Replicate{})) != needed.end()) return by_way_of(true);
  Supply parts = by_way_of(false), whole = by_way_of(true);
  return whole.cost < parts.cost ? whole : parts;
}

}  // namespace sinew::parallel
