#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/names.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/determinism.hpp>

namespace sinew {
namespace {

constexpr Spelling<Collective> kCollectiveNames[] = {
    {"all_reduce", Collective::AllReduce},
    {"all_gather", Collective::AllGather},
    {"all_gather_v", Collective::AllGatherV},
    {"reduce_scatter", Collective::ReduceScatter},
    {"reduce_scatter_v", Collective::ReduceScatterV},
    {"all_to_all", Collective::AllToAll},
    {"all_to_all_v", Collective::AllToAllV},
    {"broadcast", Collective::Broadcast},
    {"reduce", Collective::Reduce},
    {"gather", Collective::Gather},
    {"gather_v", Collective::GatherV},
    {"scatter", Collective::Scatter},
    {"scatter_v", Collective::ScatterV},
    {"barrier", Collective::Barrier},
    {"send", Collective::Send},
    {"recv", Collective::Recv},
    {"sendrecv", Collective::SendRecv},
};

/// "(f32, sum, count 16, root 1)"; `extent` is "count 16" or "counts [1, 2]" or empty.
std::string call_text(const CollectiveDesc& d, const std::string& extent) {
  std::string text = std::string(name_of(d.collective));
  if (d.collective == Collective::Barrier) return text + "()";
  text += fmt::format("({}", name_of(d.dtype));
  if (reduces(d.collective)) text += fmt::format(", {}", name_of(d.op));
  if (!extent.empty()) text += ", " + extent;
  if (has_root(d.collective)) text += fmt::format(", root {}", d.root);
  if (d.codec != Codec::None) text += fmt::format(", codec {}", name_of(d.codec));
  if (d.determinism != Determinism::Fast) text += fmt::format(", {}", name_of(d.determinism));
  if (d.place.kind == MemoryKind::Device) text += ", device memory";
  if (d.captured) text += ", captured";
  return text + ")";
}

std::string counts_text(std::span<const std::uint64_t> counts) {
  constexpr std::size_t kShown = 8;
  const auto shown = counts.first(std::min(counts.size(), kShown));
  return fmt::format("counts [{}{}]", fmt::join(shown, ", "), counts.size() > kShown ? ", ..." : "");
}

/// Of counts that only their rank knows.
std::string bound_text(std::uint64_t bytes) { return bytes == 0 ? "" : fmt::format("at most {} bytes", bytes); }

}  // namespace

std::string_view name_of(Collective c) noexcept { return find_name(kCollectiveNames, c); }

std::optional<Collective> collective_from_name(std::string_view name) noexcept {
  const auto same = [&](std::string_view ours) {
    auto o = ours.begin();
    for (const char c : name) {
      if (c == '_' || c == '-') continue;
      if (o != ours.end() && *o == '_') ++o;
      const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      if (o == ours.end() || *o++ != lower) return false;
    }
    return o == ours.end();
  };
  for (const auto& row : kCollectiveNames) {
    if (same(row.name)) return row.value;
  }
  return std::nullopt;
}

std::uint64_t CollectiveDesc::bytes(int ranks) const noexcept {
  const std::uint64_t element = size_of(dtype);
  const auto parts = static_cast<std::uint64_t>(ranks);
  switch (collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Send:
    case Collective::Recv:
    case Collective::SendRecv: return count * element;
    case Collective::AllGather:
    case Collective::Gather:
    case Collective::ReduceScatter:
    case Collective::Scatter:
    case Collective::AllToAll: return count * element * parts;
    case Collective::AllGatherV:
    case Collective::ReduceScatterV: return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) * element;
    case Collective::AllToAllV:
    case Collective::GatherV:
    case Collective::ScatterV: return largest_bytes;
    case Collective::Barrier: return 0;
  }
  return 0;
}

std::string CollectiveDesc::to_string() const {
  if (has_shared_counts(collective)) return call_text(*this, counts_text(counts));
  if (has_local_counts(collective)) return call_text(*this, bound_text(largest_bytes));
  return call_text(*this, fmt::format("count {}", count));
}

std::uint64_t hash_of_counts(std::span<const std::uint64_t> counts) noexcept {
  std::uint64_t hash = counts.size();
  for (const std::uint64_t c : counts) hash = mix(hash, c);
  return hash;
}

std::string describe_fingerprint(Fingerprint f) {
  CollectiveDesc d;
  d.collective = collective_of(f);
  d.dtype = static_cast<DType>(f >> 5 & 0xf);
  d.op = static_cast<ReduceOp>(f >> 9 & 0xf);
  const std::uint64_t determinism = f >> 13 & 0x3;
  d.captured = determinism == kCapturedCode;
  if (!d.captured) d.determinism = static_cast<Determinism>(determinism);
  if (has_root(d.collective)) {
    d.root = static_cast<std::int32_t>(f >> 15 & 0x1ffff);
  } else {
    d.codec = static_cast<Codec>(f >> 15 & 0xff);
  }
  if (f >> 63 != 0) d.place.kind = MemoryKind::Device;
  const std::uint64_t extent = f >> 32 & 0x7fffffff;
  if (has_shared_counts(d.collective)) return call_text(d, fmt::format("counts with hash {:#x}", extent));
  if (has_local_counts(d.collective)) return call_text(d, bound_text(extent));
  return call_text(d, fmt::format("count {}", extent));
}

}  // namespace sinew
