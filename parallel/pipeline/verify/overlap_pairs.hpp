#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// A forward pass and a backward pass that a rank takes one after the other, as indices into the rank's actions.
struct OverlapPair {
  std::int32_t rank = 0;
  std::int32_t forward = 0, backward = 0;

  friend bool operator==(const OverlapPair&, const OverlapPair&) = default;
};

/// The pairs of passes of a schedule that may overlap, rank by rank in their order. A pair is a Forward and the
/// Backward that is the rank's next compute, for another microbatch. Neither pass uses a result of the other. While the
/// all-to-all of experts of one pass travels, the rank can therefore compute the other pass. A pass is in one pair at
/// most. A PipelineRunner runs passes one after the other; overlapping them is left to an engine.
/// A rank may begin each pair only when the inputs of both of its passes are there. The ranks then do not wait for each
/// other in a cycle: pairs that would make a cycle are left out. dual_pipe_v() with 2p microbatches or more has all
/// pairs that were published.
/// Errors: InvalidArgument with the reason for a schedule that prove() refuses.
/// Source: the overlapped chunks of DualPipe, DeepSeek-V3, arXiv 2412.19437.
SINEW_API std::vector<OverlapPair> overlap_pairs(const PipelineSchedule& schedule);

}  // namespace sinew::parallel
