#include <sinew/transports/nccl/calls/data_type.hpp>
#include <sinew/transports/nccl/calls/v_forms.hpp>

namespace sinew::nccl {
namespace {

/// Each part is its owner's broadcast.
Result all_gather_v(const Caller& c, const NcclCall& call) {
  const std::size_t each = size_of(call.dtype);
  Grouped broadcasts(c);
  for (int root = 0; root < c.ranks; ++root) {
    const Extent part = call.out_parts[static_cast<std::size_t>(root)];
    if (part.count == 0) continue;
    std::byte* to = call.out + part.first * each;
    const std::byte* from = root == c.rank ? call.in : to;  // read at the root alone
    broadcasts.add(
        [&] { return c.api.broadcast(from, to, part.count, type_to_move(call.dtype), root, c.comm, c.stream); });
  }
  return broadcasts.end();
}

/// Each part is reduced to its owner.
Result reduce_scatter_v(const Caller& c, const NcclCall& call, RedOp op) {
  const std::size_t each = size_of(call.dtype);
  Grouped reductions(c);
  for (int root = 0; root < c.ranks; ++root) {
    const Extent part = call.in_parts[static_cast<std::size_t>(root)];
    if (part.count == 0) continue;
    std::byte* to = root == c.rank ? call.out : nullptr;
    reductions.add([&] {
      return c.api.reduce(call.in + part.first * each, to, part.count, type_of(call.dtype), op, root, c.comm, c.stream);
    });
  }
  return reductions.end();
}

/// Parts are for and from the ranks in their order; where a side has one, it is for or from the root.
Result exchange(const Caller& c, const NcclCall& call) {
  const std::size_t each = size_of(call.dtype);
  const DataType type = type_to_move(call.dtype);
  Grouped messages(c);
  for (std::size_t i = 0; i < call.in_parts.size(); ++i) {
    const Extent part = call.in_parts[i];
    const int to = call.collective == Collective::GatherV ? call.root : static_cast<int>(i);
    messages.send(call.in + part.first * each, part.count, type, to);
  }
  for (std::size_t i = 0; i < call.out_parts.size(); ++i) {
    const Extent part = call.out_parts[i];
    const int from = call.collective == Collective::ScatterV ? call.root : static_cast<int>(i);
    messages.recv(call.out + part.first * each, part.count, type, from);
  }
  return messages.end();
}

}  // namespace

Result issue_v(const Caller& c, const NcclCall& call, RedOp op) {
  switch (call.collective) {
    case Collective::AllGatherV: return all_gather_v(c, call);
    case Collective::ReduceScatterV: return reduce_scatter_v(c, call, op);
    case Collective::AllToAllV:
    case Collective::GatherV:
    case Collective::ScatterV: return exchange(c, call);
    default: return Result::InvalidArgument;  // can_run refuses the others
  }
}

}  // namespace sinew::nccl
