#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

enum class Collective : std::uint8_t {
  AllReduce,
  AllGather,
  AllGatherV,
  ReduceScatter,
  ReduceScatterV,
  AllToAll,
  AllToAllV,
  Broadcast,
  Reduce,
  Gather,
  GatherV,
  Scatter,
  ScatterV,
  Barrier,
  Send,
  Recv,
  SendRecv
};

/// The name of a collective, such as "all_reduce" or "all_gather_v".
SINEW_API std::string_view name_of(Collective c) noexcept;
/// Reads a name in upper or lower case, with '_', '-' or nothing between the words.
SINEW_API std::optional<Collective> collective_from_name(std::string_view name) noexcept;

constexpr bool reduces(Collective c) noexcept {
  return c == Collective::AllReduce || c == Collective::ReduceScatter || c == Collective::ReduceScatterV ||
         c == Collective::Reduce;
}
constexpr bool has_root(Collective c) noexcept { return c >= Collective::Broadcast && c <= Collective::ScatterV; }
/// True for v-forms to which all ranks pass the same counts.
constexpr bool has_shared_counts(Collective c) noexcept {
  return c == Collective::AllGatherV || c == Collective::ReduceScatterV;
}
/// True for v-forms to which each rank passes only its own counts.
constexpr bool has_local_counts(Collective c) noexcept {
  return c == Collective::AllToAllV || c == Collective::GatherV || c == Collective::ScatterV;
}
constexpr bool is_v_form(Collective c) noexcept { return has_shared_counts(c) || has_local_counts(c); }
/// True if only the root has data before the call.
constexpr bool is_from_root(Collective c) noexcept {
  return c == Collective::Broadcast || c == Collective::Scatter || c == Collective::ScatterV;
}
/// True if only the root has data after the call.
constexpr bool is_to_root(Collective c) noexcept {
  return c == Collective::Reduce || c == Collective::Gather || c == Collective::GatherV;
}
/// True for messages between two ranks, which have no schedule.
constexpr bool is_message(Collective c) noexcept { return c >= Collective::Send && c <= Collective::SendRecv; }

/// The number of blocks of `count` elements in a rank's input and output.
struct Blocks {
  std::uint64_t in = 1;
  std::uint64_t out = 1;
};
/// The blocks of a collective that is no v-form.
constexpr Blocks blocks_of(Collective c, std::uint64_t ranks) noexcept {
  const bool spreads = c == Collective::ReduceScatter || c == Collective::Scatter || c == Collective::AllToAll;
  const bool gathers = c == Collective::AllGather || c == Collective::Gather || c == Collective::AllToAll;
  return {spreads ? ranks : 1, gathers ? ranks : 1};
}
/// True for collectives whose messages a codec may encode.
constexpr bool may_be_coded(Collective c) noexcept { return c <= Collective::ReduceScatterV; }

/// The condition under which results have the same bits (docs/design.md, section 3.6).
enum class Determinism : std::uint8_t { Fast, Reproducible, LayoutInvariant };

/// The description of a call, which is equal on all ranks. It does not contain the local counts of all_to_all_v,
/// gather_v and scatter_v.
/// Units: counts and displacements are elements. `count` is for each rank:
///        - all_reduce, broadcast, reduce: the elements of the buffer.
///        - all_gather, gather: the elements that each rank gives.
///        - reduce_scatter, scatter: the elements that each rank receives.
///        - all_to_all: the elements for each peer.
///        - barrier: 0.
struct CollectiveDesc {
  Collective collective = Collective::Barrier;
  DType dtype = DType::U8;
  ReduceOp op = ReduceOp::Sum;
  Determinism determinism = Determinism::Fast;
  Codec codec = Codec::None;  ///< encodes messages; in a hierarchical schedule, only those that leave a host
  Place place{};
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::span<const std::uint64_t> counts{};         ///< the shared counts of a v-form, one for each rank
  std::span<const std::uint64_t> displacements{};  ///< the offset of each part with shared counts; empty: packed
  bool separate = false;            ///< true: each part is a separate buffer, which offloads do not support
  std::uint64_t largest_bytes = 0;  ///< v-forms with local counts: an upper bound for the selector; 0: unknown
  double pre_multiply = 1.0;
  const Reducer* user = nullptr;  ///< the function of ReduceOp::User
  bool captured = false;  ///< true: the call is captured into a graph of the device and runs when that is replayed

  /// The bytes of the larger buffer on `ranks` ranks. Tools print this size, and the selector uses it. It is equal on
  /// all ranks. For local counts it is `largest_bytes`.
  SINEW_API std::uint64_t bytes(int ranks) const noexcept;
  /// The description as text, such as "all_reduce(f32, sum, count 1024)".
  SINEW_API std::string to_string() const;
};

/// 64 bits that identify a call. A rank that receives another call's fingerprint can print that call. The fields are
/// collective (5 bits), dtype (4), operator (4), determinism (2), root (17; the codec if there is no root), extent (31)
/// and device memory (1). A captured call has kCapturedCode in the place of its determinism. The extent is the count,
/// or the hash of shared counts, or the upper bound of local counts. Its higher bits are folded in by xor.
using Fingerprint = std::uint64_t;
/// Stands in the place of the determinism of a captured call.
inline constexpr std::uint64_t kCapturedCode = 3;

/// Mixes two numbers so that each of their bits changes many bits of the result. The result is equal on all machines.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15U;
  return x ^ x >> 29;
}

/// The hash of a list of counts.
SINEW_API std::uint64_t hash_of_counts(std::span<const std::uint64_t> counts) noexcept;

/// The extent of a call. The fingerprint contains 31 bits of it.
inline std::uint64_t extent_of(const CollectiveDesc& d) noexcept {
  if (has_shared_counts(d.collective)) [[unlikely]]
    return hash_of_counts(d.counts);
  if (has_local_counts(d.collective)) [[unlikely]]
    return d.largest_bytes;
  return d.count;
}

/// The fingerprint of a call. `extent` is extent_of(d).
inline Fingerprint fingerprint_of(const CollectiveDesc& d, std::uint64_t extent) noexcept {
  const std::uint64_t folded = (extent ^ (extent >> 31)) & 0x7fffffffu;
  const std::uint64_t device = d.place.kind == MemoryKind::Device ? 1 : 0;
  return static_cast<std::uint64_t>(d.collective) | static_cast<std::uint64_t>(d.dtype) << 5 |
         static_cast<std::uint64_t>(reduces(d.collective) ? d.op : ReduceOp::Sum) << 9 |
         (d.captured ? kCapturedCode : static_cast<std::uint64_t>(d.determinism)) << 13 |
         (has_root(d.collective) ? static_cast<std::uint64_t>(d.root) & 0x1ffff : static_cast<std::uint64_t>(d.codec))
             << 15 |
         folded << 32 | device << 63;
}
inline Fingerprint fingerprint_of(const CollectiveDesc& d) noexcept { return fingerprint_of(d, extent_of(d)); }

inline bool is_captured(Fingerprint f) noexcept { return (f >> 13 & 3) == kCapturedCode; }
inline Collective collective_of(Fingerprint f) noexcept { return static_cast<Collective>(f & 0x1f); }
/// Describes the call of a fingerprint for error messages, such as "broadcast(f32, count 16, root 1)".
SINEW_API std::string describe_fingerprint(Fingerprint f);

}  // namespace sinew
