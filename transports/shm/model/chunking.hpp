#pragma once

#include <algorithm>
#include <cstdint>

#include <sinew/core/call/collective.hpp>
#include <sinew/transports/shm/memory/layout.hpp>

namespace sinew::shm {

/// True if every reader of an owner's input reads the same bytes of it, so that one staged chunk serves all of them.
constexpr bool one_chunk_for_all(Collective c) noexcept {
  return c == Collective::AllGather || c == Collective::Broadcast || c == Collective::Reduce || c == Collective::Gather;
}

/// The chunks of Protocol::TreeChunks: an eighth of the call, so that all levels of the tree have something to do. They
/// are at least as long as the looks at flags are worth, and at most so long that they stay in the caches of a core.
/// Source: Open MPI's xhc has chunks of 16 KiB by default.
constexpr std::uint64_t tree_chunk_bytes(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kLeast = 1 << 10;
  constexpr std::uint64_t kMost = 16 << 10;
  return std::clamp(bytes / 8 / kCacheLine * kCacheLine, kLeast, kMost);
}
constexpr std::uint64_t tree_chunks(std::uint64_t bytes) noexcept {
  return (bytes + tree_chunk_bytes(bytes) - 1) / tree_chunk_bytes(bytes);
}

/// The division of a call of Protocol::Chunks. Every range that a rank reads is divided into chunks of one length. The
/// last chunks of a short range are shorter or empty.
struct Chunking {
  std::uint64_t chunk_bytes = kCacheLine;
  std::uint64_t share_bytes = 0;  ///< all_reduce: the range that each rank combines; the last ranks have less
  std::uint64_t chunks = 0;

  Chunking() = default;
  /// `bytes`: of CollectiveDesc::count elements. `most`: the longest chunk that the facts permit.
  Chunking(Collective collective, std::uint64_t bytes, std::uint64_t ranks, std::uint64_t most) noexcept {
    const std::uint64_t readers = one_chunk_for_all(collective) ? 1 : ranks - 1;
    const Stages stages(ranks);
    const std::uint64_t fits = std::min({most, stages.result_bytes(), stages.input_bytes() / readers});
    chunk_bytes = std::max<std::uint64_t>(fits / kCacheLine, 1) * kCacheLine;
    share_bytes = (bytes / ranks / kCacheLine + 1) * kCacheLine;
    const std::uint64_t longest = collective == Collective::AllReduce ? share_bytes : bytes;
    chunks = (longest + chunk_bytes - 1) / chunk_bytes;
  }
};

}  // namespace sinew::shm
