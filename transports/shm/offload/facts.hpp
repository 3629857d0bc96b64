#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/transport.hpp>

namespace sinew::shm {

/// The protocol by which the bytes of a call move. It depends only on the call and on Facts, so it is equal on all
/// ranks.
enum class Protocol : std::uint8_t {
  Inline,  ///< the bytes are in the flag line
  Lines,   ///< the bytes are in the lines behind the flag line
  Tree,    ///< as Inline or Lines, but the bytes move up and down a tree of ranks
  Slot,    ///< each rank shows its whole contribution, in a staging slot or where it lies, and each rank combines them
  Chunks,  ///< each rank combines its share, chunk by chunk, and the other ranks fetch the result
  Parts,   ///< v-forms: each rank shows a table with the places of its parts for the other ranks
};

/// The facts by which the offload chooses a protocol and predicts times. measure() measures them on a host; otherwise
/// these defaults count. They are plain data, which ranks of one architecture exchange as bytes.
/// Units: bytes and seconds.
struct Facts {
  std::uint32_t version = 5;
  std::uint32_t cores = 1;                    ///< cores that the ranks of this host may use; set when a group is made
  std::uint64_t slot_bytes = 64 << 10;        ///< the most bytes for Protocol::Slot on 2 ranks; fewer on more ranks
  std::uint64_t stream_from_bytes = 1 << 10;  ///< from this length on, copies for other ranks go past the caches
  std::uint64_t chunk_bytes = 128 << 10;
  /// From this length on, ordinary memory is not staged but read through the kernel, if the kernel permits that.
  std::uint64_t direct_from_bytes = ~std::uint64_t{0};

  /// The same for blocks of all_gather and all_to_all, from the first length to below the second.
  std::uint64_t exchange_direct_from_bytes = ~std::uint64_t{0};
  std::uint64_t exchange_direct_to_bytes = ~std::uint64_t{0};

  /// The fewest ranks for Protocol::Tree; 0: it is used if it is predicted to be faster.
  std::uint64_t tree_from_ranks = 0;

  static constexpr std::size_t kKnots = 9;
  static constexpr double kKnotBytes[kKnots] = {8, 40, 256, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20};
  /// The times of all_reduce on 2 ranks with ordinary memory, for the lengths kKnotBytes.
  double knot_seconds[kKnots] = {0.25e-6, 0.26e-6, 0.38e-6, 0.5e-6, 2.6e-6, 28e-6, 115e-6, 470e-6, 13e-3};
};

/// True if other ranks read from this rank. That is the root of a broadcast, and all other ranks of a gather. An input
/// that is multiplied first is shown, too, and its owner reads it there.
bool shows(const CollectiveDesc& desc, int rank) noexcept;
/// The bytes that a rank shows to the others: its whole contribution.
std::uint64_t shown_bytes(const CollectiveDesc& desc, int ranks) noexcept;

/// True if all ranks read blocks of all other ranks.
constexpr bool exchanges(Collective c) noexcept { return c == Collective::AllGather || c == Collective::AllToAll; }
/// True if ordinary memory is read through the kernel instead of staged. `bytes` is the length of the buffer, or of one
/// block if ranks exchange blocks.
bool reads_directly(const Facts& facts, Collective collective, std::uint64_t bytes) noexcept;

SINEW_API Protocol protocol_of(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept;
Seconds predict(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept;
std::string describe(const CollectiveDesc& desc, int ranks, const Facts& facts);

SINEW_API Bytes encode(const Facts& facts);
/// True if the bytes are facts of this version.
SINEW_API bool are_facts(const Bytes& bytes) noexcept;
/// Returns the defaults if `bytes` are empty or of another version.
SINEW_API Facts decode_facts(const Bytes& bytes) noexcept;

}  // namespace sinew::shm
