#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/model/protocol.hpp>

namespace sinew::shm {

/// Collectives that share one measurement, because they read and copy in the same way.
enum class Family : std::uint8_t {
  Root,     ///< broadcast, scatter: ranks copy from the root
  Sum,      ///< all_reduce, reduce: ranks combine the whole contributions of all ranks
  Scatter,  ///< reduce_scatter: each rank combines one block of each contribution
  Gather,   ///< all_gather, gather: ranks copy the whole contributions of all ranks
  Swap,     ///< all_to_all: each rank copies one block of each contribution
};
inline constexpr std::size_t kFamilies = 5;
constexpr Family family_of(Collective c) noexcept {
  switch (c) {
    case Collective::Broadcast:
    case Collective::Scatter: return Family::Root;
    case Collective::ReduceScatter: return Family::Scatter;
    case Collective::AllGather:
    case Collective::Gather: return Family::Gather;
    case Collective::AllToAll: return Family::Swap;
    default: return Family::Sum;
  }
}

constexpr std::array<std::uint64_t, kFamilies> all_families(std::uint64_t bytes) noexcept {
  std::array<std::uint64_t, kFamilies> all{};
  all.fill(bytes);
  return all;
}

/// The lengths that are at least `from` and less than `to`.
struct Lengths {
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t from = kNever;
  std::uint64_t to = kNever;
  constexpr bool contain(std::uint64_t bytes) const noexcept { return bytes >= from && bytes < to; }
  constexpr bool empty() const noexcept { return from >= to; }
};

/// Returns the element for the collective's Family.
template <class T>
constexpr T& of_family(std::array<T, kFamilies>& all, Collective c) noexcept {
  return all[static_cast<std::size_t>(family_of(c))];
}
template <class T>
constexpr const T& of_family(const std::array<T, kFamilies>& all, Collective c) noexcept {
  return all[static_cast<std::size_t>(family_of(c))];
}

/// The facts by which shared memory chooses how bytes move, and predicts times. measure() measures them on a host;
/// otherwise these defaults count. They are plain data, which ranks of one architecture exchange as bytes.
/// Units: bytes and seconds.
struct Facts {
  std::uint32_t version = 7;
  std::uint32_t disturbed = 0;  ///< 1: other programs had the cores while this was measured
  std::uint32_t cores = 1;      ///< cores that the ranks of this host may use; set when a group is made
  /// By Family: the most bytes that a rank shows with Protocol::Slot on 2 ranks. A Sum has fewer on more ranks. A Root
  /// shows as many as a slot takes.
  std::array<std::uint64_t, kFamilies> slot_bytes = all_families(64 << 10);
  std::array<std::uint64_t, kFamilies> chunk_bytes = all_families(64 << 10);  ///< by Family
  /// By Family: the lengths at which ordinary memory is not staged but read through the kernel, if the kernel permits
  /// that. They are lengths of a block in all_gather and all_to_all, and of the whole contribution in others.
  std::array<Lengths, kFamilies> read_in_place{};
  std::uint64_t stream_from_bytes = 1 << 10;  ///< from this length on, copies for other ranks go past the caches
  std::uint64_t string_from_bytes = 2 << 10;  ///< from this length on, the others of them use string_copy()
  /// The longest payload that is pushed to the cache that cores share (demote_lines). 0: none is.
  std::uint64_t demoted_bytes = 0;
  /// The lengths of messages that are read in place. Other messages are copied through the ring.
  Lengths messages_in_place{};
  /// By how much the slowest repetition of a measurement took longer than the fastest: 0.1 is 10 %. The median of all
  /// measurements.
  double spread = 0;

  /// The fewest ranks for Protocol::Tree; 0: it is used if it is predicted to be faster.
  std::uint64_t tree_from_ranks = 0;
  /// The least bytes for Protocol::TreeChunks, if tree_from_ranks is not 0. 0: none.
  std::uint64_t tree_chunks_from_bytes = 0;

  static constexpr std::size_t kKnots = 9;
  static constexpr double kKnotBytes[kKnots] = {8, 40, 256, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20};
  /// The times of all_reduce on 2 ranks with ordinary memory, for the lengths kKnotBytes.
  double knot_seconds[kKnots] = {0.25e-6, 0.26e-6, 0.38e-6, 0.5e-6, 2.6e-6, 28e-6, 115e-6, 470e-6, 13e-3};

  /// Collectives whose long calls take another time than an all_reduce that moves as many bytes. scatter is like
  /// broadcast.
  static constexpr std::array kTimedApart{Collective::Broadcast, Collective::Gather, Collective::AllGather};
  static constexpr std::array<std::uint64_t, 2> kApartBytes{256 << 10, 1 << 20};
  /// By kTimedApart: the times of calls on 2 ranks with blocks of kApartBytes, divided by what the knots predict.
  std::array<std::array<double, kApartBytes.size()>, kTimedApart.size()> apart{{{1, 1}, {1, 1}, {1, 1}}};
};

/// True if other ranks read from this rank. That is the root of a broadcast, and all other ranks of a gather. An input
/// that is multiplied first is shown, too, and its owner reads it there.
bool shows(const CollectiveDesc& desc, int rank) noexcept;
/// A rank's input to a call, as the other ranks read it.
struct Contribution {
  std::uint64_t given = 0;   ///< its bytes
  std::uint64_t shown = 0;   ///< the bytes that the rank copies if the others cannot read its input in place
  bool blocks = false;       ///< true: it has a block for each rank, and each rank reads its own block only
  bool without_own = false;  ///< true: the rank does not copy the block that only itself reads
};
inline Contribution contribution_to(const CollectiveDesc& desc, int ranks) noexcept {
  if (desc.collective == Collective::Barrier) return {};
  const std::uint64_t blocks = blocks_of(desc.collective, static_cast<std::uint64_t>(ranks)).in;
  const std::uint64_t block = desc.count * size_of(desc.dtype);
  if (blocks == 1) return {block, block};
  const bool without_own = !reduces(desc.collective) || desc.op != ReduceOp::PreMulSum;
  return {block * blocks, block * (without_own ? blocks - 1 : blocks), true, without_own};
}

/// True if ordinary memory is read through the kernel instead of staged. `whole` is the length of the buffer, and
/// `block` that of desc.count elements.
bool reads_directly(const Facts& facts, Collective collective, std::uint64_t whole, std::uint64_t block) noexcept;

/// By what was measured on 2 ranks. Trees are not considered. `shown`: Contribution::shown.
Protocol protocol_of(const CollectiveDesc& desc, int ranks, const Facts& facts, std::uint64_t shown) noexcept;
SINEW_API Protocol protocol_of(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept;
SINEW_API Seconds predict(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept;
/// Describes a call by a protocol that is no tree.
std::string describe(const CollectiveDesc& desc, int ranks, const Facts& facts, Protocol protocol);
/// Returns the reason why measured facts are doubtful, for users. Empty: they are not doubtful.
std::string doubt_in(const Facts& facts);
/// Returns all choices in one line, for benchmarks.
SINEW_API std::string to_string(const Facts& facts);

SINEW_API Bytes encode(const Facts& facts);
/// True if the bytes are facts of this version.
SINEW_API bool are_facts(const Bytes& bytes) noexcept;
/// Returns the defaults if `bytes` are empty or of another version.
SINEW_API Facts decode_facts(const Bytes& bytes) noexcept;

}  // namespace sinew::shm
