#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/transport.hpp>

namespace sinew::shm {

/// How the bytes of a call travel. Which one is a pure function of the call and of Facts, so equal on all ranks.
enum class Protocol : std::uint8_t {
  Inline,  ///< in the flag line itself
  Lines,   ///< right behind the flag line
  Tree,    ///< the same two, but up and down a tree of ranks instead of from everybody to everybody
  Slot,    ///< each rank shows all it has, in a staging slot or where it lies; everybody combines for itself
  Chunks,  ///< each rank combines its share, chunk by chunk, and the others fetch the results
  CallParts,  ///< v-forms: each rank shows a table of what it has for whom, and chooses by itself where that lies
};

/// What the choices and predictions are made from: measured by measure() on a host, else these defaults.
/// Units: bytes, seconds. Plain data: travels as it is among ranks of one architecture.
struct Facts {
  std::uint32_t version = 5;
  std::uint32_t cores = 1;                    ///< usable by the ranks of this host; known when the group is made
  std::uint64_t slot_bytes = 64 << 10;        ///< Protocol::Slot up to here on 2 ranks; less on more, as all read all
  std::uint64_t stream_from_bytes = 1 << 10;  ///< copies for others go past the caches from here on
  std::uint64_t chunk_bytes = 128 << 10;
  /// Ordinary memory is read through the kernel, where that is permitted, instead of staged: from here on.
  std::uint64_t direct_from_bytes = ~std::uint64_t{0};

  /// The same for blocks of all_gather and all_to_all, which nothing is computed from: from here to below there.
  std::uint64_t exchange_direct_from_bytes = ~std::uint64_t{0};
  std::uint64_t exchange_direct_to_bytes = ~std::uint64_t{0};

  /// Protocol::Tree on so many ranks and more; 0: where it is predicted to be faster.
  std::uint64_t tree_from_ranks = 0;

  static constexpr std::size_t kKnots = 9;
  static constexpr double kKnotBytes[kKnots] = {8, 40, 256, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20};
  /// All-reduce on 2 ranks, ordinary memory, at kKnotBytes.
  double knot_seconds[kKnots] = {0.25e-6, 0.26e-6, 0.38e-6, 0.5e-6, 2.6e-6, 28e-6, 115e-6, 470e-6, 13e-3};
};

/// Does this rank have anything that others read? The root of a broadcast does, of a gather all others do. What is
/// multiplied first is read where it is shown, by its owner too.
bool shows(const CollectiveDesc& desc, int rank) noexcept;
/// Bytes that each rank that shows anything must show to the others: its whole contribution.
std::uint64_t shown_bytes(const CollectiveDesc& desc, int ranks) noexcept;

/// All ranks read blocks of all others.
constexpr bool exchanges(Collective c) noexcept { return c == Collective::AllGather || c == Collective::AllToAll; }
/// Is ordinary memory read through the kernel instead of staged? `bytes`: of the buffer, of one block where ranks
/// exchange blocks.
bool reads_in_place(const Facts& facts, Collective collective, std::uint64_t bytes) noexcept;

SINEW_API Protocol protocol_of(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept;
Seconds predict(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept;
std::string describe(const CollectiveDesc& desc, int ranks, const Facts& facts);

SINEW_API Bytes encode(const Facts& facts);
/// Of this version?
SINEW_API bool are_facts(const Bytes& bytes) noexcept;
/// The defaults where `bytes` are empty or of another version.
SINEW_API Facts decode_facts(const Bytes& bytes) noexcept;

}  // namespace sinew::shm
