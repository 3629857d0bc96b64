#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// The collective of a move, as a communicator is asked what it would take: of the largest boxes, so that all ranks ask
/// the same. Barrier: nothing is sent.
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

/// What the placement along one axis may become at once.
struct Move {
  std::string axis;
  Placement from, to;
  Placements after;  ///< in normal form
  Question question;
  std::uint64_t copied_bytes = 0;  ///< by the rank itself, beside the collective; of the largest boxes
};

/// Along which axes a search moves, and what each may become.
struct Choices {
  std::string axis;
  std::vector<Placement> placements;
};
/// What each axis is and shall be, Replicate, and shards of the dimensions that any axis shards. Both in normal form.
SINEW_API std::vector<Choices> choices_between(const Placements& from, const Placements& to);

/// What the innermost placements of `state`, in normal form, may become; in the order of `choices`.
SINEW_API std::vector<Move> moves_from(const TensorSpec& state, std::span<const Choices> choices,
                                       const Factorisation& mesh);

}  // namespace sinew::parallel
