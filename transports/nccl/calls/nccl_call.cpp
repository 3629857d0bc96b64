#include <algorithm>

#include <sinew/transports/nccl/calls/nccl_call.hpp>

namespace sinew::nccl {
namespace {

std::span<const Extent> lay_out(const CollectiveDesc& desc, Extent* to) noexcept {
  std::uint64_t next = 0;
  for (std::size_t r = 0; r < desc.counts.size(); ++r) {
    if (!desc.displacements.empty()) next = desc.displacements[r];
    to[r] = {next, desc.counts[r]};
    next += desc.counts[r];
  }
  return {to, desc.counts.size()};
}

std::span<const Extent> keep(std::span<const Extent> parts, Extent* to) noexcept {
  std::ranges::copy(parts, to);
  return {to, parts.size()};
}

}  // namespace

std::size_t parts_of(const Call& call) noexcept {
  if (has_shared_counts(call.desc.collective)) return call.desc.counts.size();
  return has_local_counts(call.desc.collective) ? call.in_parts.size() + call.out_parts.size() : 0;
}

NcclCall::NcclCall(const Call& call, Extent* parts) noexcept
    : collective(call.desc.collective),
      dtype(call.desc.dtype),
      op(call.desc.op),
      root(call.desc.root),
      count(call.desc.count),
      pre_multiply(call.desc.pre_multiply),
      in(call.in.data),
      out(call.out.data) {
  if (collective == Collective::AllGatherV) out_parts = lay_out(call.desc, parts);
  if (collective == Collective::ReduceScatterV) in_parts = lay_out(call.desc, parts);
  if (!has_local_counts(collective)) return;
  in_parts = keep(call.in_parts, parts);
  out_parts = keep(call.out_parts, parts + call.in_parts.size());
}

std::size_t NcclCall::bytes_to_copy(int ranks) const noexcept {
  if (in != out) return 0;
  if (collective == Collective::AllToAll) return count * static_cast<std::size_t>(ranks) * size_of(dtype);
  std::uint64_t end = 0;
  for (const Extent& p : in_parts) end = p.count > 0 ? std::max(end, p.first + p.count) : end;
  return collective == Collective::AllToAllV ? end * size_of(dtype) : 0;
}

}  // namespace sinew::nccl
