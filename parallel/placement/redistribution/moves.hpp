#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// The collective of a move, as a communicator is asked for its predicted time. Its sizes are those of the largest
/// boxes, so that all ranks ask the same. Barrier: nothing is sent.
struct Question {
  std::string axis;
  Collective collective = Collective::Barrier;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  std::uint64_t count = 0;
  std::vector<std::uint64_t> counts;
  std::uint64_t largest_bytes = 0;

  /// Lifetime: refers to `counts`.
  SINEW_API CollectiveDesc desc() const noexcept;
  friend bool operator==(const Question&, const Question&) = default;
};

/// A change of the placement along one axis, in one step.
struct Move {
  std::string axis;
  Placement from, to;
  Placements after;  ///< in normal form
  Question question;
  std::uint64_t copied_bytes = 0;  ///< copied on this rank in addition to the collective, for the largest boxes
};

/// The placements that a search may give to one axis.
struct Choices {
  std::string axis;
  std::vector<Placement> placements;
};
/// For each axis: its placements in `from` and `to`, Replicate, and shards of all dimensions that any axis shards.
/// `from` and `to` are in normal form.
SINEW_API std::vector<Choices> choices_between(const Placements& from, const Placements& to);

/// The moves that change one innermost placement of `state` to one of `choices`, in the order of `choices`. `state` is
/// in normal form.
SINEW_API std::vector<Move> moves_from(const TensorSpec& state, std::span<const Choices> choices,
                                       const Factorisation& mesh);

}  // namespace sinew::parallel
