#pragma once

#include <algorithm>
#include <cstdint>

#include <sinew/core/call/collective.hpp>
#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/model/chunking.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Tells which ranges the ranks read from each other in a call of Protocol::Chunks. All ranks compute the same.
/// All ranks count `chunks()` chunks.
class Geometry {
 public:
  Geometry() = default;
  Geometry(const PendingCall& call, int ranks, const Facts& facts) noexcept
      : collective_(call.collective), root_(call.root), ranks_(static_cast<std::uint64_t>(ranks)), bytes_(call.bytes) {
    const Chunking chunking(collective_, bytes_, ranks_, of_family(facts.chunk_bytes, collective_));
    chunk_ = chunking.chunk_bytes;
    share_ = chunking.share_bytes;
    chunks_ = chunking.chunks;
  }

  std::uint64_t chunk_bytes() const noexcept { return chunk_; }
  std::uint64_t chunks() const noexcept { return chunks_; }

  bool reduces() const noexcept { return sinew::reduces(collective_); }
  /// After reducing, everybody fetches everybody's share.
  bool shares_results() const noexcept { return collective_ == Collective::AllReduce; }

  bool reads_input(int reader, int owner) const noexcept {
    if (reader == owner) return false;
    if (is_from_root(collective_)) return owner == root_;
    if (is_to_root(collective_)) return reader == root_;
    return true;
  }
  /// Does this rank combine anything?
  bool combines(int rank) const noexcept { return reduces() && (collective_ != Collective::Reduce || rank == root_); }
  /// The part of every owner's `in` that this reader needs.
  Range wanted_by(int reader) const noexcept {
    const auto r = static_cast<std::uint64_t>(reader);
    if (collective_ == Collective::AllReduce) {
      const std::uint64_t begin = std::min(r * share_, bytes_);
      return {begin, std::min(share_, bytes_ - begin)};
    }
    if (blocks_of(collective_, ranks_).in > 1) return {r * bytes_, bytes_};
    return {0, bytes_};
  }
  /// Where in its `out` the reader puts what it reads of this owner (not reducing), or its own result (reducing).
  std::uint64_t lands_at(int owner) const noexcept {
    const auto o = static_cast<std::uint64_t>(owner);
    if (collective_ == Collective::AllReduce) return wanted_by(owner).offset;
    return blocks_of(collective_, ranks_).out > 1 ? o * bytes_ : 0;
  }
  /// So many chunks of a range from chunk c on, relative to it; empty behind its end.
  Range part(const Range& whole, std::uint64_t c, std::uint64_t chunks = 1) const noexcept {
    const std::uint64_t begin = std::min(c * chunk_, whole.bytes);
    return {begin, std::min(chunks * chunk_, whole.bytes - begin)};
  }
  /// Offset of the reader's chunk in one of the owner's stages.
  std::uint64_t stage_offset(int owner, int reader) const noexcept {
    if (one_chunk_for_all()) return 0;
    return static_cast<std::uint64_t>(reader < owner ? reader : reader - 1) * chunk_;
  }
  /// Does the reader keep a part of its own input, that it must put into its output?
  bool keeps_own(int reader) const noexcept {
    switch (collective_) {
      case Collective::AllGather:
      case Collective::AllToAll: return true;
      case Collective::Gather:
      case Collective::Scatter: return reader == root_;
      default: return false;
    }
  }
  bool one_chunk_for_all() const noexcept { return shm::one_chunk_for_all(collective_); }

 private:
  Collective collective_ = Collective::Barrier;
  std::int32_t root_ = 0;
  std::uint64_t ranks_ = 1;
  std::uint64_t bytes_ = 0;
  std::uint64_t chunk_ = kCacheLine;
  std::uint64_t share_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace sinew::shm
