#include <algorithm>
#include <array>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/call_shape.hpp>
#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

// The v-forms.
namespace sinew {

using namespace arguments;

namespace {

/// Counts that everybody gives: part of the description.
Work start_shared(CommunicatorState& s, CollectiveDesc desc, const Parts& given, ConstBuffer in, Buffer out,
                  const CallOptions& options) {
  desc.counts = given.counts;
  desc.displacements = given.displacements;
  const CallShape shape = call_shape(desc, s.group.rank, s.group.size());
  const Placing placing = require_shape(name_of(desc.collective), shape, in, out);
  desc.place = placing.place;
  const auto held = s.world->hold();
  CallExtras extras{s.take_parts()};
  extras.parts->counts.assign(given.counts.begin(), given.counts.end());
  extras.parts->displacements.assign(given.displacements.begin(), given.displacements.end());
  desc.counts = extras.parts->counts;
  desc.displacements = extras.parts->displacements;
  return s.start_held(desc, in, out, placing.in_place, options, extras);
}

/// Counts that only this rank knows: the call's own chunks. No parts: this rank has no such buffer.
struct LocalCall {
  std::optional<Parts> in;
  std::optional<Parts> out;
  std::size_t in_at = 0;  ///< of CallShape, in elements
  std::size_t out_at = 0;
};

Work start_local(CommunicatorState& s, CollectiveDesc desc, const LocalCall& local, ConstBuffer in, Buffer out,
                 const CallOptions& options) {
  const auto call = name_of(desc.collective);
  const std::size_t each = size_of(desc.dtype);
  const auto reach = [&](const Parts& parts, std::string_view name, bool written) {
    return require_parts(call, name, parts, desc.dtype, static_cast<int>(parts.counts.size()), written);
  };
  CallShape shape{.in_exact = false, .out_exact = false, .in_at = local.in_at * each, .out_at = local.out_at * each};
  if (local.in) shape.in = reach(*local.in, "in", false);
  if (local.out) shape.out = reach(*local.out, "out", true);
  const Placing placing = require_shape(call, shape, in, out);
  desc.place = placing.place;
  desc.largest_bytes = options.largest_bytes;
  const auto held = s.world->hold();
  const CallExtras extras{s.take_parts()};
  lay_out(local.in.value_or(Parts{}), extras.parts->chunks.in);
  lay_out(local.out.value_or(Parts{}), extras.parts->chunks.out);
  return s.start_held(desc, in, out, placing.in_place, options, extras);
}

void require_one_per_rank(std::string_view call, std::string_view name, const Parts& parts, const Group& group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  if (parts.counts.size() != ranks) reject_entries(call, name, "counts", parts.counts.size(), group.size());
  if (!parts.displacements.empty() && parts.displacements.size() != ranks)
    reject_entries(call, name, "displacements", parts.displacements.size(), group.size());
}

/// Where this rank's own part begins.
std::uint64_t own_place(const Parts& parts, int rank) {
  const auto me = static_cast<std::size_t>(rank);
  if (!parts.displacements.empty()) return me < parts.displacements.size() ? parts.displacements[me] : 0;
  std::uint64_t before = 0;
  for (const std::uint64_t c : parts.counts.first(me)) before += c;
  return before;
}

void require_equal_parts(std::string_view call, const Parts& in, const Parts& out) {
  std::uint64_t in_next = 0;
  std::uint64_t out_next = 0;
  for (std::size_t i = 0; i < in.counts.size(); ++i) {
    if (in.counts[i] != out.counts[i]) reject_unequal_parts(call, i, in.counts[i], out.counts[i], "count");
    const std::uint64_t in_first = in.displacements.empty() ? in_next : in.displacements[i];
    const std::uint64_t out_first = out.displacements.empty() ? out_next : out.displacements[i];
    if (in_first != out_first && in.counts[i] > 0) reject_unequal_parts(call, i, in_first, out_first, "displacement");
    in_next = in_first + in.counts[i];
    out_next = out_first + out.counts[i];
  }
}

}  // namespace

Work Communicator::all_gather_v(ConstBuffer in, Buffer out, DType dtype, const Parts& out_parts,
                                const CallOptions& options) {
  return start_shared(state(), describe(Collective::AllGatherV, dtype, {}, 0, options), out_parts, in, out, options);
}

Work Communicator::reduce_scatter_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, ReduceOp op,
                                    const CallOptions& options) {
  CommunicatorState& s = state();
  require_defined("reduce_scatter_v", op, dtype, options);
  return start_shared(s, describe(Collective::ReduceScatterV, dtype, {}, 0, op, options), in_parts, in, out, options);
}

Work Communicator::all_to_all_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, const Parts& out_parts,
                                const CallOptions& options) {
  CommunicatorState& s = state();
  require_one_per_rank("all_to_all_v", "in", in_parts, s.group);
  require_one_per_rank("all_to_all_v", "out", out_parts, s.group);
  const auto me = static_cast<std::size_t>(rank());
  if (in_parts.counts[me] != out_parts.counts[me])
    reject_own_part("all_to_all_v", "in", in_parts.counts[me], "out", out_parts.counts[me]);
  if (in.data == out.data && in.bytes > 0 && out.bytes > 0) require_equal_parts("all_to_all_v", in_parts, out_parts);
  return start_local(s, describe(Collective::AllToAllV, dtype, {}, 0, options), {in_parts, out_parts}, in, out,
                     options);
}

Work Communicator::gather_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& out_parts,
                            const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("gather_v", "root", root, size());
  const std::uint64_t count = elements("gather_v", "in", in, dtype);
  LocalCall local{.in = Parts{{&count, 1}}};
  if (root == rank()) {
    require_one_per_rank("gather_v", "out", out_parts, s.group);
    const std::uint64_t own = out_parts.counts[static_cast<std::size_t>(root)];
    if (own != count) reject_own_part("gather_v", "in", count, "out", own);
    local.out = out_parts;
    local.in_at = own_place(out_parts, root);
  }
  CollectiveDesc desc = describe(Collective::GatherV, dtype, {}, 0, options);
  desc.root = root;
  return start_local(s, desc, local, in, out, options);
}

Work Communicator::scatter_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& in_parts,
                             const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("scatter_v", "root", root, size());
  const std::uint64_t count = elements("scatter_v", "out", out, dtype);
  LocalCall local{.out = Parts{{&count, 1}}};
  if (root == rank()) {
    require_one_per_rank("scatter_v", "in", in_parts, s.group);
    const std::uint64_t own = in_parts.counts[static_cast<std::size_t>(root)];
    if (own != count) reject_own_part("scatter_v", "out", count, "in", own);
    local.in = in_parts;
    local.out_at = own_place(in_parts, root);
  }
  CollectiveDesc desc = describe(Collective::ScatterV, dtype, {}, 0, options);
  desc.root = root;
  return start_local(s, desc, local, in, out, options);
}

}  // namespace sinew
