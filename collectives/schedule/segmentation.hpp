#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/numeric/codec.hpp>

namespace sinew {

/// What one call may hold beside its buffers where cutting it can see to that, at least.
inline constexpr std::uint64_t kScratchBytes = 512 << 10;
/// The same where messages are coded: they lie in scratch themselves, and enough of them must be in flight to fill a
/// link.
inline constexpr std::uint64_t kCodedScratchBytes = 2 << 20;

/// The same where the call crosses a link: sums wait in scratch for several messages each way, in stages of which each
/// is cut, so a link is kept busy by many times what it carries during its latency. At most 16 MiB.
SINEW_API std::uint64_t scratch_to_fill(const CostCurve& link) noexcept;

/// How a call is cut into segments, of which some are in flight at a time. Equal on all ranks.
struct Segmentation {
  std::uint64_t segment_bytes = 0;  ///< longest piece of a chunk that one instance handles; 0: nothing is cut
  std::uint32_t depth = 1;          ///< instances at a time, at most
  std::uint64_t scratch_bytes = 0;  ///< uncut, of the rank that holds most: more segments where they are too much
  std::uint64_t most_scratch = kScratchBytes;
};
/// What comes of it for one call.
struct Segments {
  std::uint32_t count = 1;
  std::uint32_t depth = 1;
};

/// As many segments as keep both the pieces and the scratch short, but none too short to be worth its messages.
SINEW_API Segments segments_of(const Segmentation& segmentation, std::uint64_t largest_chunk_bytes, Codec codec) noexcept;

}  // namespace sinew
