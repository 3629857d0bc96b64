#include <fmt/format.h>

#include <sinew/transports/nccl/calls.hpp>
#include <sinew/transports/nccl/library.hpp>

namespace sinew::nccl {
namespace {

bool is_float8(DType dtype) noexcept { return dtype == DType::F8E4M3 || dtype == DType::F8E5M2; }

/// 8-bit floats as bytes: no version refuses those.
DataType type_to_move(DType dtype) noexcept { return is_float8(dtype) ? DataType::Uint8 : type_of(dtype); }

/// What one rank sends to all others and takes from them, as one operation: blocks in the order of the ranks.
class Messages {
 public:
  Messages(const Caller& caller, const NcclCall& call) : caller_(caller), call_(call), type_(type_to_move(call.dtype)) {
    result_ = caller_.api.group_start();
  }
  void send(int peer, std::uint64_t block) {
    if (!good()) return;
    const std::byte* from = call_.in + block * call_.block_bytes();
    result_ = caller_.api.send(from, call_.count, type_, peer, caller_.comm, caller_.stream);
  }
  void recv(int peer, std::uint64_t block) {
    if (!good()) return;
    std::byte* to = call_.out + block * call_.block_bytes();
    result_ = caller_.api.recv(to, call_.count, type_, peer, caller_.comm, caller_.stream);
  }
  /// A group that was started is ended, whatever came between.
  Result end() {
    const Result ended = caller_.api.group_end();
    return good() ? ended : result_;
  }

 private:
  bool good() const noexcept { return result_ == Result::Success || result_ == Result::InProgress; }

  const Caller& caller_;
  const NcclCall& call_;
  DataType type_;
  Result result_;
};

Result all_to_all(const Caller& c, const NcclCall& call) {
  if (c.api.all_to_all != nullptr)
    return c.api.all_to_all(call.in, call.out, call.count, type_to_move(call.dtype), c.comm, c.stream);
  Messages messages(c, call);
  for (int peer = 0; peer < c.ranks; ++peer) {
    messages.send(peer, static_cast<std::uint64_t>(peer));
    messages.recv(peer, static_cast<std::uint64_t>(peer));
  }
  return messages.end();
}

Result gather(const Caller& c, const NcclCall& call) {
  if (c.api.gather != nullptr)
    return c.api.gather(call.in, call.out, call.count, type_to_move(call.dtype), call.root, c.comm, c.stream);
  Messages messages(c, call);
  messages.send(call.root, 0);
  for (int peer = 0; c.rank == call.root && peer < c.ranks; ++peer) {
    messages.recv(peer, static_cast<std::uint64_t>(peer));
  }
  return messages.end();
}

Result scatter(const Caller& c, const NcclCall& call) {
  if (c.api.scatter != nullptr)
    return c.api.scatter(call.in, call.out, call.count, type_to_move(call.dtype), call.root, c.comm, c.stream);
  Messages messages(c, call);
  for (int peer = 0; c.rank == call.root && peer < c.ranks; ++peer) {
    messages.send(peer, static_cast<std::uint64_t>(peer));
  }
  messages.recv(call.root, 0);
  return messages.end();
}

}  // namespace

DataType type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::I8: return DataType::Int8;
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
  }
  return DataType::Uint8;
}

NcclCall::NcclCall(const Call& call) noexcept
    : collective(call.desc.collective),
      dtype(call.desc.dtype),
      op(call.desc.op),
      root(call.desc.root),
      count(call.desc.count),
      pre_multiply(call.desc.pre_multiply),
      in(call.in.data),
      out(call.out.data) {}

Availability can_run(const CollectiveDesc& desc, const Abilities& abilities) {
  switch (desc.collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Gather:
    case Collective::Scatter: break;
    default: return Availability::no(fmt::format("NCCL has no {}", name_of(desc.collective)));
  }
  if (desc.place.kind != MemoryKind::Device) return Availability::no("the buffers are not device memory");
  if (!reduces(desc.collective)) return Availability::yes();
  if (desc.determinism != Determinism::Fast) return Availability::no("NCCL promises no order of its sums");
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
  return Availability::yes();
}

const char* way_of(Collective collective, const Api& api) noexcept {
  switch (collective) {
    case Collective::AllReduce: return "ncclAllReduce";
    case Collective::AllGather: return "ncclAllGather";
    case Collective::ReduceScatter: return "ncclReduceScatter";
    case Collective::Broadcast: return "ncclBroadcast";
    case Collective::Reduce: return "ncclReduce";
    case Collective::AllToAll: return api.all_to_all != nullptr ? "ncclAlltoAll" : "grouped ncclSend and ncclRecv";
    case Collective::Gather: return api.gather != nullptr ? "ncclGather" : "grouped ncclSend and ncclRecv";
    case Collective::Scatter: return api.scatter != nullptr ? "ncclScatter" : "grouped ncclSend and ncclRecv";
    default: return "";
  }
}

Result issue(const Caller& c, const NcclCall& call, RedOp op) {
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
    case Collective::AllToAll: return all_to_all(c, call);
    case Collective::Gather: return gather(c, call);
    case Collective::Scatter: return scatter(c, call);
    default: return Result::InvalidArgument;  // can_run refuses the others
  }
}

}  // namespace sinew::nccl
