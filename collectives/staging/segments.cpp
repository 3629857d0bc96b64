#include <sinew/collectives/staging/segments.hpp>

namespace sinew {
namespace {

StagedParts::Row equal_parts(std::uint64_t parts, std::uint64_t count) {
  StagedParts::Row row;
  for (std::uint64_t i = 0; i < parts; ++i) row.push_back({i * count, count});
  return row;
}

}  // namespace

std::uint64_t staged_elements(std::vector<std::uint64_t> counts, std::size_t element_bytes) {
  std::ranges::sort(counts);
  std::uint64_t left = kStagedSegmentBytes / element_bytes;
  for (std::size_t i = 0; i < counts.size(); ++i) {  // short ones take what they have, the others share the rest
    const std::uint64_t share = left / (counts.size() - i);
    if (counts[i] > share) return std::max<std::uint64_t>(1, share);
    left -= counts[i];
  }
  return StagedSegments::kWhole;
}

StagedSegments staged_segments(const CollectiveDesc& desc, int ranks) {
  const std::size_t each = size_of(desc.dtype);
  if (has_shared_counts(desc.collective)) {
    const std::uint64_t longest = desc.counts.empty() ? 0 : std::ranges::max(desc.counts);
    return StagedSegments::of(staged_elements({desc.counts.begin(), desc.counts.end()}, each), longest);
  }
  const Blocks blocks = blocks_of(desc.collective, static_cast<std::uint64_t>(ranks));
  const std::uint64_t widest = std::max(blocks.in, blocks.out) * each;
  return StagedSegments::of(std::max<std::uint64_t>(1, kStagedSegmentBytes / widest), desc.count);
}

CollectiveDesc staged_segment(const CollectiveDesc& desc, const StagedSegments& segments, std::uint64_t k,
                              std::vector<std::uint64_t>& counts) {
  CollectiveDesc segment = desc;
  segment.place = {};
  segment.count = segments.segment(desc.count, k).count;
  counts.clear();
  for (const std::uint64_t c : desc.counts) counts.push_back(segments.segment(c, k).count);
  segment.counts = counts;
  segment.displacements = {};
  segment.largest_bytes = std::min(desc.largest_bytes, kStagedSegmentBytes);
  return segment;
}

StagedParts staged_parts(const CollectiveDesc& desc, int rank, int ranks) {
  StagedParts parts;
  if (has_shared_counts(desc.collective)) {
    const bool gathers = desc.collective == Collective::AllGatherV;
    lay_out({desc.counts, desc.displacements}, gathers ? parts.out : parts.in);
    (gathers ? parts.in : parts.out) = equal_parts(1, desc.counts[static_cast<std::size_t>(rank)]);
    return parts;
  }
  const Blocks blocks = blocks_of(desc.collective, static_cast<std::uint64_t>(ranks));
  const bool root = rank == desc.root;
  const bool takes = root || !is_to_root(desc.collective);
  if (root || desc.collective != Collective::Scatter) parts.in = equal_parts(blocks.in, desc.count);
  if (takes) parts.out = equal_parts(blocks.out, desc.count);
  return parts;
}

}  // namespace sinew
