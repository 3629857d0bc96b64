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

/// Bytes [from, from + bytes) of a part that a rank holds. `part` is the number of the part among that rank's parts.
struct HeldPiece {
  std::uint64_t part = 0, from = 0, bytes = 0;
};

/// A piece that this rank requests, and where the piece goes.
struct CarryRequest {
  HeldPiece piece;
  std::byte* to = nullptr;
};

/// All pieces that a rank requests.
struct CarryRequests {
  std::vector<std::vector<CarryRequest>> of_rank;  ///< by the rank that holds them, this rank included
  bool is_whole = true;                            ///< the ranks together hold everything that is wanted
};

/// Decides what `rank` requests of which ranks, so that it gets everything that it wants of a step. It takes elements
/// from its own parts first, then from those of the next ranks.
/// of_ranks: for each rank, the parts that it holds. steps: the step of their state.
/// Errors: InvalidArgument naming an item that is held in another shape or element type.
CarryRequests carry_requests(int rank, const std::vector<std::vector<PartDescription>>& of_ranks,
                             const std::vector<std::int64_t>& steps, std::int64_t step,
                             std::span<const CheckpointPart> wanted);

/// Copies own pieces, and exchanges the others. Collective.
void fulfil(CallGroup all, const CarryRequests& requests, std::span<const CheckpointPart> held);

}  // namespace sinew::parallel
