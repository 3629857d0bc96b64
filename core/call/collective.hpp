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

/// "all_reduce", "all_gather_v", ...; read back in any case, with '_' or '-' or nothing between the words.
SINEW_API std::string_view name_of(Collective c) noexcept;
SINEW_API std::optional<Collective> collective_from_name(std::string_view name) noexcept;

constexpr bool reduces(Collective c) noexcept {
  return c == Collective::AllReduce || c == Collective::ReduceScatter || c == Collective::ReduceScatterV ||
         c == Collective::Reduce;
}
constexpr bool has_root(Collective c) noexcept { return c >= Collective::Broadcast && c <= Collective::ScatterV; }
/// v-forms whose counts everybody gives alike.
constexpr bool has_shared_counts(Collective c) noexcept {
  return c == Collective::AllGatherV || c == Collective::ReduceScatterV;
}
/// v-forms in which each rank knows only its own counts.
constexpr bool has_local_counts(Collective c) noexcept {
  return c == Collective::AllToAllV || c == Collective::GatherV || c == Collective::ScatterV;
}
constexpr bool is_v_form(Collective c) noexcept { return has_shared_counts(c) || has_local_counts(c); }
/// Only the root has data before the call, ...
constexpr bool is_from_root(Collective c) noexcept {
  return c == Collective::Broadcast || c == Collective::Scatter || c == Collective::ScatterV;
}
/// ... or after it.
constexpr bool is_to_root(Collective c) noexcept {
  return c == Collective::Reduce || c == Collective::Gather || c == Collective::GatherV;
}
/// Between two ranks, without a schedule.
constexpr bool is_message(Collective c) noexcept { return c >= Collective::Send && c <= Collective::SendRecv; }

/// Of how many blocks of `count` elements each a rank's two buffers are made.
struct Blocks {
  std::uint64_t in = 1;
  std::uint64_t out = 1;
};
/// Of the forms whose counts are equal on all ranks.
constexpr Blocks blocks_of(Collective c, std::uint64_t ranks) noexcept {
  const bool spreads = c == Collective::ReduceScatter || c == Collective::Scatter || c == Collective::AllToAll;
  const bool gathers = c == Collective::AllGather || c == Collective::Gather || c == Collective::AllToAll;
  return {spreads ? ranks : 1, gathers ? ranks : 1};
}
/// Collectives whose messages a codec may carry.
constexpr bool may_be_coded(Collective c) noexcept { return c <= Collective::ReduceScatterV; }

/// What bits the caller may rely on (docs/design.md, Numbers).
enum class Determinism : std::uint8_t { Fast, Reproducible, LayoutInvariant };

/// One call, described by values that are equal on all ranks (the counts of all_to_all_v, gather_v and scatter_v
/// excepted: those are this rank's own and no part of the description).
/// Units:  counts and displacements are elements. `count` is, per rank:
///         all_reduce, broadcast, reduce: elements of the buffer; all_gather, gather: elements each rank gives;
///         reduce_scatter, scatter: elements each rank receives; all_to_all: elements for each peer; barrier: 0.
struct CollectiveDesc {
  Collective collective = Collective::Barrier;
  DType dtype = DType::U8;
  ReduceOp op = ReduceOp::Sum;
  Determinism determinism = Determinism::Fast;
  Codec codec = Codec::None;  ///< of messages; of the composition of a hierarchy those that leave a host
  Place place{};
  std::int32_t root = 0;
  std::uint64_t count = 0;  ///< elements of a rank's part; all_reduce, broadcast, reduce, messages: of the whole
  std::span<const std::uint64_t> counts{};         ///< all_gather_v, reduce_scatter_v: one per rank
  std::span<const std::uint64_t> displacements{};  ///< of these: where each part lies here; empty: packed
  bool separate = false;  ///< shared counts: each part is a buffer of its own, which transports' own collectives refuse
  std::uint64_t largest_bytes = 0;  ///< v-forms with local counts: a bound for selection, 0: unknown
  double pre_multiply = 1.0;
  const Reducer* user = nullptr;  ///< ReduceOp::User

  /// Bytes of the larger of the two buffers on `ranks` ranks: the size that tools print and selection goes by, equal
  /// on all ranks: `largest_bytes` where counts are local.
  SINEW_API std::uint64_t bytes(int ranks) const noexcept;
  /// "all_reduce(f32, sum, count 1024)"
  SINEW_API std::string to_string() const;
};

/// 64 bits that say which call a message belongs to, packed so that the receiver of a stranger can print it:
/// collective 5, dtype 4, operator 4, determinism 2, root or where there is none codec 17, extent 31 (what is above
/// them xored in), device memory 1. The extent is the count; of shared counts their hash, of local ones the bound for
/// selection.
using Fingerprint = std::uint64_t;

/// Spreads every bit of a and b over 64 bits; the same on every machine.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15U;
  return x ^ x >> 29;
}

/// Equal where all counts are.
SINEW_API std::uint64_t hash_of_counts(std::span<const std::uint64_t> counts) noexcept;

/// What a fingerprint shows 31 bits of.
inline std::uint64_t extent_of(const CollectiveDesc& d) noexcept {
  if (has_shared_counts(d.collective)) [[unlikely]]
    return hash_of_counts(d.counts);
  if (has_local_counts(d.collective)) [[unlikely]]
    return d.largest_bytes;
  return d.count;
}

/// `extent`: of `d`.
inline Fingerprint fingerprint_of(const CollectiveDesc& d, std::uint64_t extent) noexcept {
  const std::uint64_t folded = (extent ^ (extent >> 31)) & 0x7fffffffu;
  const std::uint64_t device = d.place.kind == MemoryKind::Device ? 1 : 0;
  return static_cast<std::uint64_t>(d.collective) | static_cast<std::uint64_t>(d.dtype) << 5 |
         static_cast<std::uint64_t>(reduces(d.collective) ? d.op : ReduceOp::Sum) << 9 |
         static_cast<std::uint64_t>(d.determinism) << 13 |
         (has_root(d.collective) ? static_cast<std::uint64_t>(d.root) & 0x1ffff : static_cast<std::uint64_t>(d.codec))
             << 15 |
         folded << 32 | device << 63;
}
inline Fingerprint fingerprint_of(const CollectiveDesc& d) noexcept { return fingerprint_of(d, extent_of(d)); }

inline Collective collective_of(Fingerprint f) noexcept { return static_cast<Collective>(f & 0x1f); }
/// The call behind a fingerprint, for error messages: "broadcast(f32, count 16, root 1)".
SINEW_API std::string describe_fingerprint(Fingerprint f);

}  // namespace sinew
