#pragma once

#include <string>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// Whether a schedule is right, or the first thing found that is not: one sentence that names rank and step.
struct [[nodiscard]] ScheduleVerdict {
  bool ok = true;
  int rank = -1;  ///< -1: not about one rank
  int step = -1;  ///< index into its Program::steps; -1: not about one step
  std::string reason;

  explicit operator bool() const noexcept { return ok; }
};

/// Executes all ranks' programs on symbols, with zero buffering: a message moves only when its send and its receive
/// have both started, and neither is done before. Right means:
///   shape      chunks are what the collective says; slices, peers and dependencies exist; input is only read; coded
///              chunks are only moved, encoded into and decoded from
///   messages   each send meets the receive of the same number, both ends have the same chunk classes, none is
///              left over
///   races      two steps of a rank that touch the same memory, one of them writing, are ordered by dependencies,
///              in place included
///   progress   every step runs, whatever the speed of the ranks
///   result     every result has every contribution exactly once and nothing else; Average scales it once at the end,
///              PreMulSum each contribution once; all ranks have the same expression tree, up to swapping the two
///              operands of a sum; where the call needs the canonical order (core/call/determinism.hpp) it is
///              that tree; what was coded is decoded, and nothing is coded twice without a sum between
/// What holds for one instance of the programs holds for all: instances share nothing but the user's buffers, each its
/// own part.
/// Cost: 0.1 to 2 us per step (measured on up to 512 ranks).
SINEW_API ScheduleVerdict verify(const Schedule& schedule);

}  // namespace sinew
