#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/extent.hpp>
#include <sinew/core/numeric/codec.hpp>

namespace sinew {

/// Where the chunks of one call lie in the user's buffers, in elements: made once per plan, but of local counts for
/// each call.
struct ChunkTable {
  using Extent = sinew::Extent;

  std::vector<Extent> in;
  std::vector<Extent> out;
  std::vector<Extent> scratch;  ///< first: within an instance's scratch, of whole chunks; count: elements, coded or not
  std::uint64_t largest = 0;    ///< elements of the longest chunk
};

/// Bytes of so many elements of a chunk, coded or not. `element_bytes`: of those that are not.
constexpr std::uint64_t chunk_bytes(std::uint32_t chunk_class, std::uint64_t elements, Codec codec,
                                    std::size_t element_bytes) noexcept {
  return (chunk_class & kCoded) != 0 ? wire_bytes(codec, elements) : elements * element_bytes;
}

/// Elements that are coded together: a buffer is cut at multiples of it, so that its blocks are those of every piece.
constexpr std::uint64_t cut_unit(Codec codec) noexcept { return has_scales(codec) ? kScaledBlock : 1; }

/// Segment s of a chunk that is cut into so many, at multiples of `unit`; the last ones may be empty.
inline Extent segment_of(const Extent& chunk, std::uint32_t s, std::uint32_t segments, std::uint64_t unit) noexcept {
  if (unit == 1) return chunk.segment(s, segments);
  const Extent units = Extent{0, (chunk.count + unit - 1) / unit}.segment(s, segments);
  const std::uint64_t from = std::min(units.first * unit, chunk.count);
  return {chunk.first + from, std::min((units.first + units.count) * unit, chunk.count) - from};
}

/// Lays out `program`'s chunks for a call whose counts are equal on all ranks; those of shared counts where the
/// displacements say.
SINEW_API ChunkTable chunk_table(const CollectiveDesc& desc, const Program& program);

/// One part per rank, as a caller lays them out: an In or Out row. Cost: allocates only to grow.
SINEW_API void lay_out(const Parts& parts, std::vector<ChunkTable::Extent>& row);

/// For each scratch chunk the In or Out chunk of its class, from which it has its size if counts are local. A chunk of
/// another rank's block, whose size a message tells, has a slice with count 0.
SINEW_API std::vector<Slice> find_scratch_models(const Program& program);
/// Scratch chunks one behind the other, as long as their models. Chunks without a model have no elements. Cost:
/// allocates only to grow.
SINEW_API void lay_out_scratch(const std::vector<Slice>& models, ChunkTable& table);

}  // namespace sinew
