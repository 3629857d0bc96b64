#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/parallel/calls/call_group.hpp>
#include <sinew/parallel/checkpoint/index.hpp>
#include <sinew/parallel/checkpoint/item.hpp>

namespace sinew::parallel {

/// The label of carry_over's calls in errors.
inline constexpr const char* kCarryLabel = "carry over";

/// Bytes [from, from + bytes) of a part that a rank holds, by its place among that rank's parts.
struct HeldPiece {
  std::uint64_t part = 0, from = 0, bytes = 0;
};

/// A piece that this rank wants, and where it goes.
struct CarryWish {
  HeldPiece piece;
  std::byte* to = nullptr;
};

struct CarryWishes {
  std::vector<std::vector<CarryWish>> of_rank;  ///< by who holds it; this rank's own, too
  bool is_whole = true;                         ///< all that is wanted is held by somebody
};

/// What `rank` asks whom for, so that it has all that it wants of a step: itself first, then the next ranks.
/// of_ranks, steps: what each rank holds, and of which step.
/// Errors: InvalidArgument naming an item that is held in another shape or element type.
CarryWishes carry_wishes(int rank, const std::vector<std::vector<PartDescription>>& of_ranks,
                         const std::vector<std::int64_t>& steps, std::int64_t step,
                         std::span<const CheckpointPart> wanted);

/// Copies and exchanges. Collective.
void fulfil(CallGroup all, const CarryWishes& wishes, std::span<const CheckpointPart> held);

}  // namespace sinew::parallel
