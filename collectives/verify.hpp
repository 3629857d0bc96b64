#pragma once

#include <string>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The result of verify(). `reason` describes the first fault in one sentence.
struct [[nodiscard]] ScheduleVerdict {
  bool ok = true;
  int rank = -1;  ///< the rank with the fault; -1: it is not of one rank
  int step = -1;  ///< the index of the faulty step in Program::steps; -1: it is not of one step
  std::string reason;

  explicit operator bool() const noexcept { return ok; }
};

/// Verifies a schedule. Executes the programs of all ranks with symbols as data and without buffers: a message moves
/// only when both its send and its receive have started, and only then can they end. The following must hold:
/// - Shape: the chunks are those of the collective. Slices, peers and dependencies exist. Input is only read. Coded
///   chunks are only moved, encoded into and decoded from.
/// - Sizes: a rank of a call with local counts knows the size of each chunk that it uses. It has the size in its own
///   counts, or a sized message has told it before. Parts of a v-form move one by one.
/// - Messages: each send matches the receive with the same number. Both have the same chunk classes. No send or receive
///   is left.
/// - Races: two steps of a rank are ordered by dependencies if they use the same memory and one of them writes it. This
///   includes memory of calls in place.
/// - Progress: every step runs, whatever the speed of the ranks.
/// - Result: every result has each contribution exactly once. Average scales the result once, at the end. PreMulSum
///   scales each contribution once. All ranks have the same expression tree, up to the order of a sum's two operands.
///   If the call needs the canonical order (core/call/determinism.hpp), it is the canonical tree. A coded chunk is
///   decoded, and only sums of decoded chunks are coded again.
/// The verdict for one instance of the programs holds for all: instances share only the user's buffers, and each
/// instance has its own part of them.
/// Cost: 0.1 to 2 us for each step, measured with up to 512 ranks.
SINEW_API ScheduleVerdict verify(const Schedule& schedule);

}  // namespace sinew
