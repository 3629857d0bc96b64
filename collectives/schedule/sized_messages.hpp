#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The messages of a program whose messages are sized (Program::sized), and the step that tells this rank the size of a
/// chunk. A message is the sizes of its chunks, as 8 bytes each, and then the chunks.
/// It travels in two parts: a head of at most head_bytes(), and the rest if it is longer. The receive of the head can
/// be posted before the sizes are known. A message that is longer than its receiver expects still shows its sizes.
struct SINEW_API SizedMessages {
  /// The head of a message of few chunks. It is the longest message that all transports send eagerly.
  static constexpr std::size_t kHeadBytes = 8000;
  /// The entry of `told_by` of a chunk that has the size of an In or Out chunk.
  static constexpr std::uint32_t kKnown = std::numeric_limits<std::uint32_t>::max();
  /// The entry of `told_by` of a chunk whose size this rank never learns. No right program has one.
  static constexpr std::uint32_t kUntold = kKnown - 1;
  /// The entry of `run_of` of a chunk that is in no message.
  static constexpr std::uint32_t kNone = kKnown;

  /// The Scratch chunks of one message.
  struct Run {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint64_t head_at = 0;  ///< bytes of the heads of all runs before this one

    std::size_t size_bytes() const noexcept { return count * sizeof(std::uint64_t); }
    /// The most bytes of the head. Both ends of a message have the same number of chunks, so they agree on it.
    std::size_t head_bytes() const noexcept { return std::max(kHeadBytes, size_bytes()); }
  };

  /// Slices that a right program does not have are left out.
  explicit SizedMessages(const Program& program);

  /// The bytes of the heads of all runs.
  std::uint64_t head_bytes() const noexcept {
    return runs.empty() ? 0 : runs.back().head_at + runs.back().head_bytes();
  }
  const Run& run_with(std::uint32_t chunk) const noexcept { return runs[run_of[chunk]]; }
  /// Calls visit(r) for each Recv step r that must be done before `step` because it tells the size of a chunk in a run
  /// that `step` uses. The memory of a run is laid out when all its sizes are known.
  template <class Visit>
  void for_each_teller(std::uint32_t index, const Step& step, Visit&& visit) const {
    for (const Slice& s : {step.a, step.b, step.dst}) {
      if (s.count == 0 || s.space != Space::Scratch || s.first >= run_of.size() || run_of[s.first] == kNone) continue;
      const Run& run = run_with(s.first);
      for (std::uint32_t c = run.first; c < run.first + run.count; ++c) {
        if (told_by[c] < kUntold && told_by[c] != index) visit(told_by[c]);
      }
    }
  }

  std::vector<Run> runs;
  std::vector<std::uint32_t> run_of;   ///< by Scratch chunk
  std::vector<std::uint32_t> told_by;  ///< by Scratch chunk: the index of the Recv step that tells its size
  std::vector<std::uint32_t> told_in;  ///< by Scratch chunk with a teller: the chunk of the same class in its message
};

}  // namespace sinew
