#include <array>
#include <cstdint>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/call_shape.hpp>
#include <sinew/collectives/world/part_calls.hpp>

namespace sinew {

using namespace arguments;

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

}  // namespace sinew
