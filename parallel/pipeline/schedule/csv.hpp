#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// A row for each rank, with an action in each cell: "0F0,0F1,0B0,0B1". A rank without actions has a row of empty
/// cells.
/// Source: the format of PyTorch's torch.distributed.pipelining, compute_only and compute_comms.
SINEW_API std::string to_csv(const PipelineSchedule& schedule);

/// Reads what to_csv() writes. Cells may be empty or padded with blanks. A stage belongs to the rank whose row names
/// it. PyTorch's "(0F1;3B0)OVERLAP_F_B" is read as its actions one after the other.
/// Errors: InvalidArgument naming line, cell and what was expected. It is thrown for an unknown word, and for a stage
///         or microbatch out of range. It is also thrown for a stage on two ranks, and for an action of compute that is
///         missing or there twice.
SINEW_API PipelineSchedule from_csv(std::string_view text, std::string_view name);

}  // namespace sinew::parallel
