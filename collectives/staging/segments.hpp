#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// Pinned bytes per segment and direction: long enough for full rate, short enough that copies hide behind the
/// exchange.
inline constexpr std::uint64_t kStagedSegmentBytes = 2 << 20;

/// The segments of a call. Segment k holds elements [k*n, (k+1)*n) of each part of the buffers, as far as the part has
/// them. All ranks have equal segments.
struct StagedSegments {
  static constexpr std::uint64_t kWhole = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t elements = kWhole;  ///< n
  std::uint64_t count = 1;          ///< at least 1, so that ranks compare their calls even if a call has no elements

  /// `longest`: elements of the longest part of any rank.
  static StagedSegments of(std::uint64_t elements, std::uint64_t longest) noexcept {
    return {elements, longest == 0 ? 1 : (longest - 1) / elements + 1};
  }
  /// The elements of segment k in a part of `length` elements.
  ChunkTable::Extent segment(std::uint64_t length, std::uint64_t k) const noexcept {
    const std::uint64_t first = k == 0 ? 0 : std::min(length, k * elements);
    return {first, std::min(elements, length - first)};
  }
};

/// Returns how many elements of each of these parts a segment takes: as many as fit into kStagedSegmentBytes, and at
/// least 1. If the whole parts fit, it is StagedSegments::kWhole.
SINEW_API std::uint64_t staged_elements(std::vector<std::uint64_t> counts, std::size_t element_bytes);

/// The call by which ranks that know only their own counts agree on segments. Each rank gives the complement of
/// staged_elements() of its parts, and the elements of its longest part.
inline constexpr CollectiveDesc kStagedAgreement{
    .collective = Collective::AllReduce, .dtype = DType::U64, .op = ReduceOp::Max, .count = 2};

/// The segments of a call whose counts all ranks know, which is each call without local counts.
SINEW_API StagedSegments staged_segments(const CollectiveDesc& desc, int ranks);

/// Describes segment k as a call of its own on host memory. `counts` gets the counts to which the description refers.
SINEW_API CollectiveDesc staged_segment(const CollectiveDesc& desc, const StagedSegments& segments, std::uint64_t k,
                                        std::vector<std::uint64_t>& counts);

/// Of which parts this rank's buffers are made, in elements: none where it gives, or takes, nothing.
struct StagedParts {
  using Row = std::vector<ChunkTable::Extent>;
  Row in;
  Row out;
};
/// Of a call whose counts everybody knows. The data of a broadcast are one buffer, which is `in` and `out` of every
/// rank.
SINEW_API StagedParts staged_parts(const CollectiveDesc& desc, int rank, int ranks);

/// Calls `copy(first, pitch, count, rows, packed)` for all elements of segment k. Each call is for `rows` runs of
/// `count` elements. In the buffer the first run begins at element `first`, and each other run begins `pitch` elements
/// after the one before. In the segment the runs lie one behind the other from element `packed` on. Returns the number
/// of elements of the segment.
template <class F>
std::uint64_t for_each_row(const StagedParts::Row& parts, const StagedSegments& segments, std::uint64_t k, F&& copy) {
  std::uint64_t packed = 0;
  for (std::size_t i = 0; i < parts.size();) {
    const auto [skipped, count] = segments.segment(parts[i].count, k);
    std::size_t end = i + 1;
    const std::uint64_t pitch = end < parts.size() ? parts[end].first - parts[i].first : count;
    const auto follows = [&](std::size_t next) {
      return pitch >= count && parts[next].count == parts[i].count && parts[next].first >= parts[next - 1].first &&
             parts[next].first - parts[next - 1].first == pitch;
    };
    while (end < parts.size() && follows(end)) ++end;
    const std::uint64_t rows = end - i;
    if (count > 0) copy(parts[i].first + skipped, rows == 1 ? count : pitch, count, rows, packed);
    packed += rows * count;
    i = end;
  }
  return packed;
}

}  // namespace sinew
