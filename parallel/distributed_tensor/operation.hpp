#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/placement/redistribution/redistribute.hpp>
#include <sinew/parallel/placement/tensor.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// An operation on tensors: its operands with their placements, its results without placements, and the rule by which
/// the placements of the results follow from those of the operands.
struct Operation {
  std::string name{};
  ComputeRule rule{};
  std::vector<TensorSpec> operands{};
  std::vector<TensorSpec> results{};
  /// While a label of these is cut, the ranks that share it exchange sums or maxima within the operation: for each
  /// place of the other labels of the first result, `exchanged` numbers of `exchanged_dtype`, by all_reduce.
  std::string exchanged_labels{};
  int exchanged = 0;
  DType exchanged_dtype = DType::F32;
  /// The placements of the first result that are preferred if they cost no more bytes. Partials in it count as
  /// Replicate. Without them, the placements that change the fewest operands are preferred.
  bool has_preferred = false;
  Placements preferred{};
};

/// One way to run an operation: the placements to which its operands are brought.
struct PlacedOperation {
  std::string text{};  ///< "tp: m cut; dp: replicated"
  std::vector<Placements> operands{}, results{};
  std::int64_t moved_bytes = 0;      ///< sent to bring the operands to these placements
  std::int64_t exchanged_bytes = 0;  ///< sent within the operation
  /// The bytes of a later reduce_scatter of the results that become Partial. They count only against other candidates
  /// that send bytes.
  std::int64_t pending_bytes = 0;
  std::int64_t moved_operands = 0;

  std::int64_t sent_bytes() const noexcept { return moved_bytes + exchanged_bytes; }
};

/// The candidate that is taken, with the steps that bring the operands there.
struct OperationPlan {
  Operation operation{};
  std::vector<Redistribution> moves{};  ///< for each operand; no steps: it stays
  std::vector<std::int64_t> bytes{};    ///< that each of them sends
  PlacedOperation chosen{};
  std::vector<PlacedOperation> rejected{};  ///< the best one first

  /// The axes along which the operation exchanges numbers.
  std::vector<std::string> exchange_axes() const;
  /// Says what is redistributed with which bytes, and what the best rejected candidates would send.
  SINEW_API std::string explain() const;
};

/// Chooses the placements in which an operation runs. Candidates are all placements that the rule accepts along each
/// axis on which an operand has a placement: all operands whole, one label cut, or Partial operands kept if the
/// operation is linear in them. A candidate that sends nothing is taken before all others, so a product of operands cut
/// along their inner dimension leaves a Partial result. Otherwise the one is taken that sends the fewest bytes, where
/// the reduction of a new Partial result counts as bytes of a reduce_scatter. Nothing is sent to choose, and all ranks
/// choose alike.
/// Units:  bytes that all ranks of the mesh together send, with rings. An all_reduce of n bytes along an axis of P
///         ranks sends 2 (P - 1) n. An all_gather or a reduce_scatter sends (P - 1) n.
/// Errors: InvalidArgument on all ranks alike, as require_valid for each operand. It is also thrown if operands have
///         placements along axes that overlap, such as "dp" and "dp-cp".
/// Cost:   a search through the placements of each operand: on two axes a few milliseconds. Operations remember their
///         plans.
SINEW_API OperationPlan plan_operation(const Operation& operation, const Factorisation& mesh);

/// The same plan without the rejected candidates. It is found sooner if the operands can stay as they are. A thread
/// remembers the latest plans, so a training step searches in its first pass only.
std::shared_ptr<const OperationPlan> plan_to_run(const Operation& operation, const Factorisation& mesh);

/// plan_operation(operation, mesh).explain().
SINEW_API std::string explain(const Operation& operation, const Factorisation& mesh);

}  // namespace sinew::parallel
