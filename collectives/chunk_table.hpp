#pragma once

#include <cstdint>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/export.hpp>

namespace sinew {

/// Where the chunks of one call lie in the user's buffers, in elements: made once per plan for calls whose counts are
/// equal on all ranks.
/// Segments: part s of S of a chunk of n elements is [n*s/S, n*(s+1)/S), the same split on every rank.
struct ChunkTable {
  struct Extent {
    std::uint64_t first = 0;
    std::uint64_t count = 0;

    Extent segment(std::uint32_t s, std::uint32_t of) const noexcept {
      const std::uint64_t from = count * s / of;
      return {first + from, count * (s + 1) / of - from};
    }
  };

  std::vector<Extent> in;
  std::vector<Extent> out;
  std::vector<Extent> scratch;  ///< first: within an instance's scratch, of whole chunks
  std::uint64_t largest = 0;    ///< elements of the longest chunk
};

/// Lays out `program`'s chunks for a call with equal counts.
/// Errors: Error{InvalidArgument} for v-forms, whose tables come from the call.
SINEW_API ChunkTable chunk_table(const CollectiveDesc& desc, const Program& program);

}  // namespace sinew
