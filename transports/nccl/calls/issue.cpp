#include <sinew/transports/nccl/calls/data_type.hpp>
#include <sinew/transports/nccl/calls/issue.hpp>
#include <sinew/transports/nccl/calls/v_forms.hpp>

namespace sinew::nccl {
namespace {

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
    default: return kMessages;  // AllToAllV, GatherV, ScatterV: can_run() rejects all others
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
