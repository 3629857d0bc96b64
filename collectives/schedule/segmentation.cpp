#include <algorithm>

#include <sinew/collectives/schedule/segmentation.hpp>

namespace sinew {
namespace {

/// The fewest bytes of a segment. Shorter segments cost more in messages than they save in memory.
constexpr std::uint64_t kShortestPiece = 32 << 10;
/// The number of segments in flight if the limit of scratch determines their length. One segment moves while the other
/// one is summed up. With more of them in flight, segments would have to be shorter.
constexpr std::uint64_t kDepthForScratch = 2;
/// The scratch that fills a link, as a multiple of the bytes that the link carries during its latency.
constexpr double kTimesInFlight = 64;
constexpr std::uint64_t kMostScratch = 16 << 20;

}  // namespace

std::uint64_t scratch_to_fill(const CostCurve& link) noexcept {
  if (link.knots.empty()) return kScratchBytes;
  const double bytes = kTimesInFlight * link.knots.back().bytes_per_s * link.seconds(0);
  if (!(bytes > static_cast<double>(kScratchBytes))) return kScratchBytes;
  return static_cast<std::uint64_t>(std::min(bytes, static_cast<double>(kMostScratch)));
}

Segments segments_of(const Segmentation& segmentation, std::uint64_t largest_chunk_bytes, Codec codec) noexcept {
  if (segmentation.segment_bytes == 0) return {};
  const auto pieces = [=](std::uint64_t bytes) { return (largest_chunk_bytes + bytes - 1) / bytes; };
  const std::uint64_t most = std::max(segmentation.most_scratch, codec == Codec::None ? 0 : kCodedScratchBytes);
  const std::uint64_t for_scratch =
      (std::min<std::uint64_t>(segmentation.depth, kDepthForScratch) * segmentation.scratch_bytes + most - 1) / most;
  const std::uint64_t wanted =
      std::max(pieces(segmentation.segment_bytes), std::min(for_scratch, pieces(kShortestPiece)));
  Segments segmented;
  segmented.count = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, 1u << 20));
  const std::uint64_t held =
      std::max<std::uint64_t>(segmentation.scratch_bytes / segmented.count, 1);  // scratch of each instance
  segmented.depth = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most / held, 1, segmentation.depth));
  segmented.depth = std::min(segmented.depth, segmented.count);
  return segmented;
}

}  // namespace sinew
