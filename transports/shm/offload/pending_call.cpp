#include <algorithm>
#include <array>
#include <cstring>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/numeric/canonical_tree.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {
namespace {

const std::byte* at(const void* base, std::uint64_t offset) noexcept {
  return static_cast<const std::byte*>(base) + offset;
}

void copy_unless_there(std::byte* to, const void* from, std::uint64_t bytes) noexcept {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

/// Combines the sources pairwise, in a buffer that stays in the first-level cache. Only complete results are copied to
/// `out`, since `out` may be one of the later sources.
void combine_in_pieces(const Reducer& reduce, std::byte* out, const void* const* sources, int count,
                       std::uint64_t bytes) noexcept {
  alignas(kCacheLine) std::array<std::byte, 4096> part;  // not a page
  const std::uint64_t step = part.size() / reduce.element_bytes * reduce.element_bytes;
  for (std::uint64_t from = 0; from < bytes; from += step) {
    const std::uint64_t length = std::min(step, bytes - from);
    reduce(part.data(), at(sources[0], from), at(sources[1], from), length);
    for (int i = 2; i < count; ++i) reduce(part.data(), part.data(), at(sources[i], from), length);
    std::memcpy(out + from, part.data(), length);
  }
}

}  // namespace

CallForm form_of(const CollectiveDesc& desc, int rank, int ranks, const Facts& facts, Protocol protocol) noexcept {
  const Contribution contribution = contribution_to(desc, ranks);
  const bool gives = shows(desc, rank);
  const std::uint64_t shown = gives ? contribution.shown : 0;
  return {.collective = desc.collective,
          .op = desc.op,
          .protocol = protocol,
          .by_tree = needs_canonical_order(desc, ranks),
          .blocks = contribution.blocks,
          .without_own = contribution.without_own,
          // In a call with a root, ranks that only give run ahead of those that take. So nobody waits for these lines.
          .demoted = facts.demoted_bytes > 0 && protocol <= Protocol::Lines && shown <= facts.demoted_bytes &&
                     !has_root(desc.collective),
          .root = desc.root,
          .bytes = desc.count * size_of(desc.dtype),
          .given = gives ? contribution.given : 0,
          .shown = shown};
}

void reduce_all(const PendingCall& call, std::byte* out, const void* const* sources, int count,
                std::uint64_t bytes) noexcept {
  if (count == 1) {
    copy_unless_there(out, sources[0], bytes);
  } else if (count == 2) {
    call.reducer(out, sources[0], sources[1], bytes);
  } else if (call.by_tree) {
    reduce_by_tree(call.reducer, out, {sources, static_cast<std::size_t>(count)}, bytes);
  } else if (call.many.fn != nullptr) {
    call.many(out, sources, count, bytes);
  } else {
    combine_in_pieces(call.reducer, out, sources, count, bytes);
  }
}

void combine(const PendingCall& call, std::byte* out, const void* const* sources, int count,
             std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  reduce_all(call, out, sources, count, bytes);
  if (call.scales_result()) call.scaler(out, out, bytes);
}

void finish_at_once(const PendingCall& call, const void* const* shown, int rank, int ranks) noexcept {
  const std::uint64_t n = call.bytes;
  const std::uint64_t own = static_cast<std::uint64_t>(rank) * n;
  const auto take = [&](int from, std::byte* to) {
    if (from == rank) return copy_unless_there(to, shown[from], n);
    if (n > 0) vector_copy(to, static_cast<const std::byte*>(shown[from]), n);
  };
  switch (call.collective) {
    case Collective::AllReduce:
    case Collective::ReduceScatter: return combine(call, call.out, shown, ranks, n);
    case Collective::Reduce:
      if (rank == call.root) combine(call, call.out, shown, ranks, n);
      return;
    case Collective::Broadcast:
      if (call.out != nullptr) take(call.root, call.out);
      return;
    case Collective::Gather:
      if (rank != call.root) return;
      [[fallthrough]];
    case Collective::AllGather:
      take(rank, call.out + own);        // first: `in` may be where another block goes
      for (int i = 1; i < ranks; ++i) {  // each rank begins behind itself, so that they do not all read from one
        const int r = rank + i < ranks ? rank + i : rank + i - ranks;
        take(r, call.out + static_cast<std::uint64_t>(r) * n);
      }
      return;
    case Collective::AllToAll:
      for (int r = 0; r < ranks; ++r) take(r, call.out + static_cast<std::uint64_t>(r) * n);
      return;
    case Collective::Scatter: return take(call.root, call.out);
    default: return;  // a barrier
  }
}

}  // namespace sinew::shm
