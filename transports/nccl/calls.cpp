#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <sinew/transports/nccl/calls.hpp>
#include <sinew/transports/nccl/library.hpp>
#include <sinew/transports/nccl/v_calls.hpp>

namespace sinew::nccl {
namespace {

bool is_float8(DType dtype) noexcept { return dtype == DType::F8E4M3 || dtype == DType::F8E5M2; }

Result all_to_all(const Caller& c, const NcclCall& call) {
  const DataType type = type_to_move(call.dtype);
  const std::uint64_t block = call.count * size_of(call.dtype);
  Grouped messages(c);
  for (int peer = 0; peer < c.ranks; ++peer) {
    const std::uint64_t at = static_cast<std::uint64_t>(peer) * block;
    messages.send(call.in + at, call.count, type, peer);
    messages.recv(call.out + at, call.count, type, peer);
  }
  return messages.end();
}

Result gather(const Caller& c, const NcclCall& call) {
  const DataType type = type_to_move(call.dtype);
  const std::uint64_t block = call.count * size_of(call.dtype);
  Grouped messages(c);
  messages.send(call.in, call.count, type, call.root);
  for (int peer = 0; c.rank == call.root && peer < c.ranks; ++peer) {
    messages.recv(call.out + static_cast<std::uint64_t>(peer) * block, call.count, type, peer);
  }
  return messages.end();
}

Result scatter(const Caller& c, const NcclCall& call) {
  const DataType type = type_to_move(call.dtype);
  const std::uint64_t block = call.count * size_of(call.dtype);
  Grouped messages(c);
  for (int peer = 0; c.rank == call.root && peer < c.ranks; ++peer) {
    messages.send(call.in + static_cast<std::uint64_t>(peer) * block, call.count, type, peer);
  }
  messages.recv(call.out, call.count, type, call.root);
  return messages.end();
}

}  // namespace

DataType type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::I8: return DataType::Int8;
    case DType::Bool:
    case DType::U8: return DataType::Uint8;
    case DType::I32: return DataType::Int32;
    case DType::U32: return DataType::Uint32;
    case DType::I64: return DataType::Int64;
    case DType::U64: return DataType::Uint64;
    case DType::F16: return DataType::Float16;
    case DType::BF16: return DataType::Bfloat16;
    case DType::F32: return DataType::Float32;
    case DType::F64: return DataType::Float64;
    case DType::F8E4M3: return DataType::Float8e4m3;
    case DType::F8E5M2: return DataType::Float8e5m2;
    case DType::I16:
    case DType::U16:
      break;  // NCCL has no such type. can_run refuses to reduce it, and type_to_move says how it is moved.
  }
  return DataType::Uint8;
}

DataType type_to_move(DType dtype) noexcept {
  if (size_of(dtype) == 2 && is_integer(dtype)) return DataType::Float16;  // NCCL copies its bits unchanged
  return is_float8(dtype) ? DataType::Uint8 : type_of(dtype);
}

std::size_t NcclCall::bytes_to_copy(int ranks) const noexcept {
  if (in != out) return 0;
  if (collective == Collective::AllToAll) return count * static_cast<std::size_t>(ranks) * size_of(dtype);
  std::uint64_t end = 0;
  for (const Extent& p : in_parts) end = p.count > 0 ? std::max(end, p.first + p.count) : end;
  return collective == Collective::AllToAllV ? end * size_of(dtype) : 0;
}

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
  if (desc.determinism != Determinism::Fast && !is_integer(desc.dtype))  // nor what becomes of a NaN
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

const char* way_of(Collective collective, const Features& has) noexcept {
  constexpr const char* kMessages = "grouped ncclSend and ncclRecv";
  switch (collective) {
    case Collective::AllReduce: return "ncclAllReduce";
    case Collective::AllGather: return "ncclAllGather";
    case Collective::AllGatherV: return "grouped ncclBroadcast";
    case Collective::ReduceScatter: return "ncclReduceScatter";
    case Collective::ReduceScatterV: return "grouped ncclReduce";
    case Collective::Broadcast: return "ncclBroadcast";
    case Collective::Reduce: return "ncclReduce";
    case Collective::AllToAll: return has.all_to_all ? "ncclAlltoAll" : kMessages;
    case Collective::Gather: return has.gather ? "ncclGather" : kMessages;
    case Collective::Scatter: return has.scatter ? "ncclScatter" : kMessages;
    default: return kMessages;  // what is left of those that can_run takes
  }
}

Result issue(const Caller& c, const Features& has, const NcclCall& call, RedOp op) {
  const DataType moved = type_to_move(call.dtype);
  const DataType summed = type_of(call.dtype);
  const Api& api = c.api;
  switch (call.collective) {
    case Collective::AllReduce: return api.all_reduce(call.in, call.out, call.count, summed, op, c.comm, c.stream);
    case Collective::ReduceScatter:
      return api.reduce_scatter(call.in, call.out, call.count, summed, op, c.comm, c.stream);
    case Collective::Reduce: return api.reduce(call.in, call.out, call.count, summed, op, call.root, c.comm, c.stream);
    case Collective::AllGather: return api.all_gather(call.in, call.out, call.count, moved, c.comm, c.stream);
    case Collective::Broadcast: return api.broadcast(call.in, call.out, call.count, moved, call.root, c.comm, c.stream);
    case Collective::AllToAll:
      if (!has.all_to_all) return all_to_all(c, call);
      return api.all_to_all(call.in, call.out, call.count, moved, c.comm, c.stream);
    case Collective::Gather:
      if (!has.gather) return gather(c, call);
      return api.gather(call.in, call.out, call.count, moved, call.root, c.comm, c.stream);
    case Collective::Scatter:
      if (!has.scatter) return scatter(c, call);
      return api.scatter(call.in, call.out, call.count, moved, call.root, c.comm, c.stream);
    default: return issue_v(c, call, op);
  }
}

}  // namespace sinew::nccl
