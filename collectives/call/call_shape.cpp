#include <algorithm>
#include <numeric>
#include <vector>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/call_shape.hpp>

namespace sinew {
namespace {

using namespace arguments;

/// Where there is no memory an offset is still a number.
std::uintptr_t address(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

std::size_t bytes_of(const CollectiveDesc& desc, std::uint64_t blocks) {
  std::size_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(desc.count, blocks, &bytes) &&
                    !__builtin_mul_overflow(bytes, size_of(desc.dtype), &bytes) && bytes <= PTRDIFF_MAX;
  if (!fits) reject_overflow(name_of(desc.collective), desc.count, blocks, desc.dtype);
  return bytes;
}

/// All parts on one side, this rank's own on the other.
CallShape shared_shape(const CollectiveDesc& desc, int rank, int ranks) {
  const bool gathers = desc.collective == Collective::AllGatherV;
  const Parts parts{desc.counts, desc.displacements};
  const std::size_t whole =
      require_parts(name_of(desc.collective), gathers ? "out" : "in", parts, desc.dtype, ranks, true);
  const auto me = static_cast<std::size_t>(rank);
  const std::uint64_t before = desc.displacements.empty()
                                   ? std::accumulate(desc.counts.begin(), desc.counts.begin() + rank, std::uint64_t{0})
                                   : desc.displacements[me];
  const std::size_t own = desc.counts[me] * size_of(desc.dtype);
  const std::size_t at = before * size_of(desc.dtype);
  CallShape shape;
  (gathers ? shape.in : shape.out) = own;
  (gathers ? shape.out : shape.in) = whole;
  (gathers ? shape.out_exact : shape.in_exact) = false;
  (gathers ? shape.in_at : shape.out_at) = at;
  return shape;
}

/// Errors: InvalidArgument where two parts share an element.
void require_apart(std::string_view call, std::string_view name, const Parts& parts) {
  const std::size_t ranks = parts.counts.size();
  std::vector<std::size_t> order;
  for (std::size_t i = 1; i < ranks && order.empty(); ++i) {
    if (parts.displacements[i - 1] + parts.counts[i - 1] > parts.displacements[i]) order.resize(ranks);
  }
  if (order.empty()) return;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return parts.counts[i] == 0; });
  std::ranges::sort(order, {}, [&](std::size_t i) { return parts.displacements[i]; });
  for (std::size_t k = 1; k < order.size(); ++k) {
    const std::size_t a = order[k - 1];
    const std::size_t b = order[k];
    const std::uint64_t end = parts.displacements[a] + parts.counts[a];
    if (end > parts.displacements[b]) reject_parts_overlap(call, name, a, b, parts);
  }
}

}  // namespace

std::size_t require_parts(std::string_view call, std::string_view name, const Parts& parts, DType dtype, int ranks,
                          bool written) {
  const auto expected = static_cast<std::size_t>(ranks);
  if (static_cast<std::size_t>(dtype) >= kDTypeCount) reject_dtype(call, dtype);
  if (parts.counts.size() != expected) reject_entries(call, name, "counts", parts.counts.size(), ranks);
  const bool packed = parts.displacements.empty();
  if (!packed && parts.displacements.size() != expected)
    reject_entries(call, name, "displacements", parts.displacements.size(), ranks);
  const std::uint64_t most = static_cast<std::uint64_t>(PTRDIFF_MAX) / size_of(dtype);
  std::uint64_t next = 0;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < expected; ++i) {
    const std::uint64_t first = packed ? next : parts.displacements[i];
    if (parts.counts[i] > most || first > most - parts.counts[i])
      reject_part(call, name, i, first, parts.counts[i], most);
    next = first + parts.counts[i];
    if (parts.counts[i] > 0) last = std::max(last, next);
  }
  if (written && !packed) require_apart(call, name, parts);
  return last * size_of(dtype);
}

CallShape call_shape(const CollectiveDesc& desc, int rank, int ranks) {
  const auto call = name_of(desc.collective);
  if (static_cast<std::size_t>(desc.dtype) >= kDTypeCount) reject_dtype(call, desc.dtype);
  if (has_root(desc.collective)) require_rank(call, "root", desc.root, ranks);
  if (has_shared_counts(desc.collective)) return shared_shape(desc, rank, ranks);
  const Blocks blocks = blocks_of(desc.collective, static_cast<std::uint64_t>(ranks));
  const bool root = rank == desc.root;
  const bool gives = root || desc.collective != Collective::Scatter;
  const bool takes = root || !is_to_root(desc.collective);
  CallShape shape;
  if (desc.collective == Collective::Barrier) return shape;
  // The data of a broadcast are one buffer, which is written, too.
  if (gives && desc.collective != Collective::Broadcast) shape.in = bytes_of(desc, blocks.in);
  if (takes) shape.out = bytes_of(desc, blocks.out);
  const std::size_t own = bytes_of(desc, 1) * static_cast<std::size_t>(rank);
  if (blocks.in < blocks.out) shape.in_at = own;
  if (blocks.in > blocks.out) shape.out_at = own;
  return shape;
}

Placing require_shape(std::string_view call, const CallShape& shape, ConstBuffer in, Buffer out) {
  const auto require = [&](std::string_view name, ConstBuffer b, std::size_t bytes, bool exact) {
    require_memory(call, name, b);
    if (exact && b.bytes != bytes) reject_bytes(call, name, b.bytes, bytes);
    if (b.bytes < bytes) reject_small(call, name, b.bytes, bytes);
  };
  if (shape.in) require("in", in, *shape.in, shape.in_exact);
  if (shape.out) require("out", out, *shape.out, shape.out_exact);
  if (!shape.in || !shape.out) {
    const ConstBuffer only = shape.in ? in : shape.out ? ConstBuffer(out) : ConstBuffer{};
    return {!shape.in, common_place(call, only, Buffer{nullptr, 0, only.place})};
  }
  const Place place = common_place(call, in, out);
  const bool moves = in.bytes > 0 && out.bytes > 0;  // else equal addresses say nothing
  const bool in_place = moves && address(in.data) + shape.out_at == address(out.data) + shape.in_at;
  if (!in_place) require_disjoint(call, in, out);
  return {in_place, place};
}

}  // namespace sinew
