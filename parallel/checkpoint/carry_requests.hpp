#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// The label of carry_over's calls in errors.
inline constexpr const char* kCarryLabel = "carry over";

/// Bytes [from, from + bytes) of a part that a rank holds, by its place among that rank's parts.
struct HeldPiece {
  std::uint64_t part = 0, from = 0, bytes = 0;
};

/// A piece that this rank wants, and where it goes.
struct CarryRequest {
  HeldPiece piece;
  std::byte* to = nullptr;
};

struct CarryRequests {
  std::vector<std::vector<CarryRequest>> of_rank;  ///< by who holds it; this rank's own, too
  bool is_whole = true;                            ///< all that is wanted is held by somebody
};

/// What `rank` asks whom for, so that it has all that it wants of a step: itself first, then the next ranks.
/// of_ranks, steps: what each rank holds, and of which step.
/// Errors: InvalidArgument naming an item that is held in another shape or element type.
CarryRequests carry_requests(int rank, const std::vector<std::vector<PartDescription>>& of_ranks,
                             const std::vector<std::int64_t>& steps, std::int64_t step,
                             std::span<const CheckpointPart> wanted);

/// Copies and exchanges. Collective.
void fulfil(CallGroup all, const CarryRequests& requests, std::span<const CheckpointPart> held);

}  // namespace sinew::parallel
