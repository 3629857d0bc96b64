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

/// How a label is cut along an axis: part i is [offsets[i], offsets[i+1]).
struct LabelCut {
  char label = 0;
  std::vector<std::int64_t> offsets;
  friend bool operator==(const LabelCut&, const LabelCut&) = default;
};

/// The rule of a compute with the tensors of its node: what it makes of placements along one axis.
///   A label that is cut in one operand is cut alike in all that have it; those that lack it are whole. A result that
///   has it is cut there; in one that lacks it a sum over the ranks is missing.
///   One operand may be Partial (sum) where the compute is linear in it and all others are whole, and all operands of a
///   sum together. Everything else is refused.
/// Placements are given, and come, of tensors in the order of the rule: operands, then results.
class BoundRule {
 public:
  BoundRule(const StepGraph& graph, const Node& node);

  /// Why the rule does not fit the tensors; empty: it does. Nothing else can be asked of one that does not.
  const std::string& fault() const noexcept { return fault_; }
  bool adds() const noexcept { return adds_; }
  std::size_t operands() const noexcept { return operands_; }
  std::size_t tensors() const noexcept { return dims_.size(); }
  const std::map<char, std::int64_t>& extents() const noexcept { return extents_; }

  struct Outcome {
    std::string fault;
    std::vector<Placement> results;
  };
  /// Cut results of operands that are whole are not found so: none needs to be cut.
  Outcome derive(std::span<const Placement> operands, const Axis& axis) const;
  /// Why it cannot go from these operands to these results; empty: it can.
  std::string fault_of(std::span<const Placement> all, const Axis& axis) const;

  /// A tensor with that label cut; whole where it lacks it; none where the cut would fall inside one of its dimensions.
  std::optional<Placement> placed(std::size_t tensor, const LabelCut& cut, int ranks) const;
  /// None where offsets fall inside the inner labels of a dimension.
  std::optional<LabelCut> cut_of(std::size_t tensor, const Shard& shard, int ranks) const;
  char outer_label(std::size_t tensor, int dim) const { return dims_[tensor][static_cast<std::size_t>(dim)].front(); }
  /// Dimensions of two tensors that have the same label, or outer label.
  std::vector<std::pair<int, int>> shared_dims(std::size_t a, std::size_t b) const;

 private:
  void find_extents(const std::vector<std::pair<char, std::int64_t>>& known);
  std::int64_t inner(const std::string& dim) const;
  bool has(std::size_t tensor, char label) const;
  std::string complaint(std::size_t tensor, const Axis& axis, const Placement& found, std::string_view expected) const;
  Outcome derive_sums(std::span<const Placement> operands, const Axis& axis) const;
  /// Of operands of which one at least is cut.
  Outcome derive_cut(std::span<const Placement> operands, const Axis& axis) const;
  bool is_broadcast(std::span<const Placement> results, const Axis& axis) const;

  std::string function_, whole_, fault_;
  std::vector<std::size_t> linear_;
  std::size_t operands_ = 0;
  bool adds_ = false;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::vector<std::string>> dims_;
  std::map<char, std::int64_t> extents_;
};

/// Of a cut of `extent` rows into parts as even as they can be.
std::vector<std::int64_t> even_offsets(int ranks, std::int64_t extent);

/// Of a valid shard of so many rows: without offsets where they are those of an even cut.
Placement plain(Placement placement, const std::vector<std::int64_t>& shape, int ranks);

}  // namespace sinew::parallel
