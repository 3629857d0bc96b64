#include <algorithm>
#include <array>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/buffer_list.hpp>
#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

// The forms that take a separate buffer for each rank.
namespace sinew {

using namespace arguments;

namespace {

Buffer readable(ConstBuffer b) noexcept { return {const_cast<std::byte*>(b.data), b.bytes, b.place}; }

std::vector<Buffer> readable(std::span<const ConstBuffer> buffers) {
  std::vector<Buffer> all;
  all.reserve(buffers.size());
  for (const ConstBuffer& b : buffers) all.push_back(readable(b));
  return all;
}

/// This rank's own part is the single buffer.
bool is_in_place(ConstBuffer single, std::span<const Buffer> list, int rank) noexcept {
  const Buffer own = list[static_cast<std::size_t>(rank)];
  return single.data == own.data && own.bytes > 0;
}

void require_own(std::string_view call, std::string_view name, ConstBuffer single, std::string_view list_name,
                 const BufferList& list, DType dtype, int rank) {
  const std::uint64_t own = list.counts[static_cast<std::size_t>(rank)];
  const std::uint64_t count = elements(call, name, single, dtype);
  if (count != own) reject_own_part(call, name, count, list_name, own);
  if (single.place.kind != MemoryKind::Host) reject_places(call, single.place, list.whole.place);
}

/// Starts a call whose parts are separate buffers. Where a list is null, that side is a single buffer or none.
Work start_list(CommunicatorState& s, CollectiveDesc desc, const BufferList* in, const BufferList* out,
                ConstBuffer single_in, Buffer single_out, bool in_place, const CallOptions& options) {
  const bool shared = has_shared_counts(desc.collective);
  const auto held = s.world->hold();
  const CallExtras extras{s.take_parts()};
  CallParts& parts = *extras.parts;
  parts.separate = shared;
  if (shared) {
    parts.counts = (in != nullptr ? in : out)->counts;
    desc.counts = parts.counts;
    desc.separate = true;
  } else {
    desc.largest_bytes = options.largest_bytes;
  }
  const auto fill = [&](const BufferList* list, bool is_single, ConstBuffer single, auto& row) {
    const std::array<std::uint64_t, 1> one{single.bytes / size_of(desc.dtype)};
    lay_out(list != nullptr ? list->parts() : is_single ? Parts{one, {}} : Parts{}, row);
  };
  fill(in, desc.collective == Collective::GatherV, single_in, parts.chunks.in);
  fill(out, desc.collective == Collective::ScatterV, single_out, parts.chunks.out);
  return s.start_held(desc, in != nullptr ? ConstBuffer(in->whole) : single_in,
                      out != nullptr ? out->whole : single_out, in_place, options, extras);
}

}  // namespace

Work Communicator::all_gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, const CallOptions& options) {
  CommunicatorState& s = state();
  const BufferList list = list_of("all_gather", "outs", outs, dtype, size());
  require_own("all_gather", "in", in, "outs", list, dtype, rank());
  const bool in_place = is_in_place(in, outs, rank());
  const std::array given{readable(in)};
  require_apart("all_gather", in_place ? std::span<const Buffer>() : given, outs);
  return start_list(s, describe(Collective::AllGatherV, dtype, {}, 0, options), nullptr, &list, in, {}, in_place,
                    options);
}

Work Communicator::reduce_scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, ReduceOp op,
                                  const CallOptions& options) {
  CommunicatorState& s = state();
  const std::vector<Buffer> given = readable(ins);
  const BufferList list = list_of("reduce_scatter", "ins", given, dtype, size());
  require_own("reduce_scatter", "out", out, "ins", list, dtype, rank());
  require_defined("reduce_scatter", op, dtype, options);
  const bool in_place = is_in_place(out, given, rank());
  // Parts must be apart in place, as they are combined where they lie.
  const std::array taken{out};
  if (in_place) {
    require_apart("reduce_scatter", {}, given);
  } else {
    require_apart("reduce_scatter", given, taken);
  }
  return start_list(s, describe(Collective::ReduceScatterV, dtype, {}, 0, op, options), &list, nullptr, {}, out,
                    in_place, options);
}

Work Communicator::all_to_all(std::span<const ConstBuffer> ins, std::span<const Buffer> outs, DType dtype,
                              const CallOptions& options) {
  CommunicatorState& s = state();
  const std::vector<Buffer> given = readable(ins);
  const BufferList in = list_of("all_to_all", "ins", given, dtype, size());
  const BufferList out = list_of("all_to_all", "outs", outs, dtype, size());
  const auto me = static_cast<std::size_t>(rank());
  if (in.counts[me] != out.counts[me]) reject_own_part("all_to_all", "ins", in.counts[me], "outs", out.counts[me]);
  const auto same = [](const Buffer& a, const Buffer& b) { return a.bytes == b.bytes && a.data == b.data; };
  const bool in_place = in.whole.bytes > 0 && std::ranges::equal(given, outs, same);
  require_apart("all_to_all", in_place ? std::span<const Buffer>() : std::span<const Buffer>(given), outs);
  return start_list(s, describe(Collective::AllToAllV, dtype, {}, 0, options), &in, &out, {}, {}, in_place, options);
}

Work Communicator::gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, int root,
                          const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("gather", "root", root, size());
  static_cast<void>(elements("gather", "in", in, dtype));
  CollectiveDesc desc = describe(Collective::GatherV, dtype, {}, 0, options);
  desc.root = root;
  if (rank() != root) return start_list(s, desc, nullptr, nullptr, in, {}, false, options);
  const BufferList list = list_of("gather", "outs", outs, dtype, size());
  require_own("gather", "in", in, "outs", list, dtype, root);
  const bool in_place = is_in_place(in, outs, root);
  const std::array given{readable(in)};
  require_apart("gather", in_place ? std::span<const Buffer>() : given, outs);
  return start_list(s, desc, nullptr, &list, in, {}, in_place, options);
}

Work Communicator::scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, int root,
                           const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("scatter", "root", root, size());
  static_cast<void>(elements("scatter", "out", out, dtype));
  CollectiveDesc desc = describe(Collective::ScatterV, dtype, {}, 0, options);
  desc.root = root;
  if (rank() != root) return start_list(s, desc, nullptr, nullptr, {}, out, true, options);
  const std::vector<Buffer> given = readable(ins);
  const BufferList list = list_of("scatter", "ins", given, dtype, size());
  require_own("scatter", "out", out, "ins", list, dtype, root);
  const bool in_place = is_in_place(out, given, root);
  const std::array taken{out};
  require_apart("scatter", given, in_place ? std::span<const Buffer>() : taken);
  return start_list(s, desc, &list, nullptr, {}, out, in_place, options);
}

}  // namespace sinew
