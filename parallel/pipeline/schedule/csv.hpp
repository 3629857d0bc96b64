#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// A row per rank, with an action in each cell: "0F0,0F1,0B0,0B1". A rank without actions is a row of empty cells.
/// Source: the format of PyTorch's torch.distributed.pipelining, compute_only and compute_comms.
SINEW_API std::string to_csv(const PipelineSchedule& schedule);

/// The reverse. Cells may be empty or padded with blanks; a stage is on the rank whose row names it. PyTorch's
/// "(0F1;3B0)OVERLAP_F_B" is its actions one after the other.
/// Errors: InvalidArgument naming line and cell, and what was expected, for an unknown word, a stage or micro-batch out
///         of range, a stage on two ranks, and for an action of compute that is doubled or missing.
SINEW_API PipelineSchedule from_csv(std::string_view text, std::string_view name);

}  // namespace sinew::parallel
