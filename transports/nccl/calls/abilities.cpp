#include <bit>

#include <fmt/format.h>

#include <sinew/transports/nccl/calls/abilities.hpp>
#include <sinew/transports/nccl/calls/data_type.hpp>
#include <sinew/transports/nccl/library/library.hpp>

namespace sinew::nccl {

Availability can_run(const CollectiveDesc& desc, const Abilities& abilities, int ranks) {
  switch (desc.collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Gather:
    case Collective::Scatter:
    case Collective::AllGatherV:
    case Collective::ReduceScatterV:
    case Collective::AllToAllV:
    case Collective::GatherV:
    case Collective::ScatterV: break;
    default: return Availability::no(fmt::format("NCCL has no {}", name_of(desc.collective)));
  }
  if (desc.place.kind != MemoryKind::Device) return Availability::no("the buffers are not device memory");
  if (desc.codec != Codec::None) return Availability::no("NCCL has no codecs");
  if (!reduces(desc.collective)) return Availability::yes();
  if (size_of(desc.dtype) == 2 && is_integer(desc.dtype)) return Availability::no("NCCL has no integers of 16 bits");
  // NCCL defines neither the order of its sums nor the results for NaNs.
  if (desc.determinism != Determinism::Fast && !is_integer(desc.dtype))
    return Availability::no("NCCL promises no order of its sums");
  switch (desc.op) {
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor: return Availability::no("NCCL has no bitwise operators");
    case ReduceOp::User: return Availability::no("NCCL takes no operator of the user's");
    case ReduceOp::Sum:
    case ReduceOp::Product:
    case ReduceOp::Min:
    case ReduceOp::Max:
    case ReduceOp::Average:
    case ReduceOp::PreMulSum: break;
  }
  if (!is_float8(desc.dtype)) return Availability::yes();
  if (abilities.version < kFirstWithFloat8) {
    return Availability::no(fmt::format("found NCCL {}, {} is computed from {} on", version_text(abilities.version),
                                        name_of(desc.dtype), version_text(kFirstWithFloat8)));
  }
  if (abilities.compute_capability < kFloat8Capability) {
    return Availability::no(fmt::format("a device has compute capability {}.{}, {} is computed from {}.{} on",
                                        abilities.compute_capability / 10, abilities.compute_capability % 10,
                                        name_of(desc.dtype), kFloat8Capability / 10, kFloat8Capability % 10));
  }
  if (desc.op == ReduceOp::Average && !std::has_single_bit(static_cast<unsigned>(ranks))) {
    return Availability::no(
        fmt::format("NCCL multiplies by 1/{} before it adds, and has that factor as {}", ranks, name_of(desc.dtype)));
  }
  return Availability::yes();
}

}  // namespace sinew::nccl
