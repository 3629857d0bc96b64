#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/numeric/codec.hpp>

namespace sinew {

/// The least limit of the scratch bytes of a call. A call that would hold more is divided into more segments, as long
/// as segments are not too short.
inline constexpr std::uint64_t kScratchBytes = 512 << 10;
/// The least limit for calls with coded messages. Coded messages lie in scratch, and enough of them must be in flight
/// to fill a link.
inline constexpr std::uint64_t kCodedScratchBytes = 2 << 20;

/// Returns the limit for calls that use this link: 64 times the bytes that the link carries during its latency, but at
/// least kScratchBytes and at most 16 MiB. The factor is large because sums wait in scratch for several messages in
/// each direction, and because each stage has segments.
SINEW_API std::uint64_t scratch_to_fill(const CostCurve& link) noexcept;

/// The rule by which calls are divided into segments, of which several are in flight at a time. Equal on all ranks.
struct Segmentation {
  std::uint64_t segment_bytes = 0;  ///< the most bytes of a chunk in one segment; 0: calls have one segment
  std::uint32_t depth = 1;          ///< the most segments in flight
  std::uint64_t scratch_bytes = 0;  ///< the most scratch of a rank if there is one segment
  std::uint64_t most_scratch = kScratchBytes;
};
/// The segments of one call.
struct Segments {
  std::uint32_t count = 1;
  std::uint32_t depth = 1;
};

/// Divides a call into segments that keep both the parts of chunks and the scratch short. No segment is so short that
/// its messages cost more than the division gains.
SINEW_API Segments segments_of(const Segmentation& segmentation, std::uint64_t largest_chunk_bytes,
                               Codec codec) noexcept;

}  // namespace sinew
