#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// The cut of a label along an axis. Part i is [offsets[i], offsets[i+1]).
struct LabelCut {
  char label = 0;
  std::vector<std::int64_t> offsets;
  friend bool operator==(const LabelCut&, const LabelCut&) = default;
};

/// The rule of a compute with the tensors of its node. It derives the placements of the results along one axis from
/// those of the operands.
///   Cut labels: a label that is cut in one operand is cut alike in all operands that have it. Operands that lack the
///   label are whole. A result that has the label is cut there. A result that lacks it needs a sum over the ranks, or
///   the operator that the rule names instead.
///   Partial operands: one operand may be Partial (sum) if the compute is linear in it and all others are whole. All
///   operands of a sum may be Partial together. Everything else is refused.
/// Placements are in the order of the rule: operands, then results.
class BoundRule {
 public:
  BoundRule(const StepGraph& graph, const Node& node);

  /// Why the rule does not fit the tensors. Empty: it fits. If it does not fit, no other function may be called.
  const std::string& fault() const noexcept { return fault_; }
  bool adds() const noexcept { return adds_; }
  const std::vector<std::size_t>& linear() const noexcept { return linear_; }
  ReduceOp combines() const noexcept { return combines_; }
  std::size_t operands() const noexcept { return operands_; }
  std::size_t tensors() const noexcept { return dims_.size(); }
  const std::map<char, std::int64_t>& extents() const noexcept { return extents_; }

  struct Outcome {
    std::string fault;
    std::vector<Placement> results;
  };
  /// The placements of the results for operands with these placements. Whole operands give whole results here, although
  /// fault_of() also accepts results that are cut along a label of no operand.
  Outcome derive(std::span<const Placement> operands, const Axis& axis) const;
  /// Why the compute cannot make these results of these operands. Empty: it can.
  std::string fault_of(std::span<const Placement> all, const Axis& axis) const;

  /// The placement of a tensor with that label cut. It is whole if it lacks the label. nullopt if the cut would fall
  /// inside one of its dimensions.
  std::optional<Placement> placed(std::size_t tensor, const LabelCut& cut, int ranks) const;
  /// The cut of the outer label of the dimension that `shard` cuts. nullopt if offsets fall inside the inner labels.
  std::optional<LabelCut> cut_of(std::size_t tensor, const Shard& shard, int ranks) const;
  char outer_label(std::size_t tensor, int dim) const { return dims_[tensor][static_cast<std::size_t>(dim)].front(); }
  /// Dimensions of two tensors with the same label, or the same outer label.
  std::vector<std::pair<int, int>> shared_dims(std::size_t a, std::size_t b) const;

 private:
  void find_extents(const std::vector<std::pair<char, std::int64_t>>& known);
  std::int64_t inner(const std::string& dim) const;
  bool has(std::size_t tensor, char label) const;
  std::string complaint(std::size_t tensor, const Axis& axis, const Placement& found, std::string_view expected) const;
  Outcome derive_sums(std::span<const Placement> operands, const Axis& axis) const;
  /// As derive(), for operands of which at least one is cut, and none is Partial.
  Outcome derive_cut(std::span<const Placement> operands, const Axis& axis) const;
  bool is_broadcast(std::span<const Placement> results, const Axis& axis) const;

  std::string function_, whole_, fault_;
  std::vector<std::size_t> linear_;
  ReduceOp combines_ = ReduceOp::Sum;
  std::size_t operands_ = 0;
  bool adds_ = false;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::vector<std::string>> dims_;
  std::map<char, std::int64_t> extents_;
};

/// The offsets of a cut of `extent` rows into parts that are as even as possible.
std::vector<std::int64_t> even_offsets(int ranks, std::int64_t extent);

/// Removes the offsets of a valid shard if they are those of an even cut. Other placements stay.
Placement plain(Placement placement, const std::vector<std::int64_t>& shape, int ranks);

}  // namespace sinew::parallel
