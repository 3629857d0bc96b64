#include <sinew/c/calls.h>
#include <sinew/c/functions/call.hpp>
#include <sinew/collectives/call/call_shape.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

/// The parts of one side of a v-form, which has an entry for each rank.
/// Errors: InvalidArgument for a null pointer to the counts.
Parts parts_of(const char* function, const char* what, const CommunicatorEntry& entry, const std::uint64_t* counts,
               const std::uint64_t* displacements) {
  const auto ranks = static_cast<std::size_t>(entry.communicator->size());
  Parts parts{{&require_pointer(function, what, counts), ranks}};
  if (displacements != nullptr) parts.displacements = {displacements, ranks};
  return parts;
}

/// The bytes from the begin of a buffer to the end of its last part.
std::size_t bytes_of_parts(const Elements& elements, const char* name, const Parts& parts) {
  return require_parts(elements.function, name, parts, elements.dtype, static_cast<int>(parts.counts.size()), false);
}

ConstBuffer in_of_parts(const Elements& elements, const void* data, const Parts& parts, Place place) {
  return {static_cast<const std::byte*>(data), bytes_of_parts(elements, "in", parts), place};
}

Buffer out_of_parts(const Elements& elements, void* data, const Parts& parts, Place place) {
  return {static_cast<std::byte*>(data), bytes_of_parts(elements, "out", parts), place};
}

/// The count of this rank.
std::uint64_t own_count(const CommunicatorEntry& entry, const Parts& parts) {
  return parts.counts[static_cast<std::size_t>(entry.communicator->rank())];
}

}  // namespace

extern "C" {

sinew_status sinew_all_gather_v(sinew_communicator communicator, const void* in, void* out, const uint64_t* out_counts,
                                const uint64_t* out_displacements, sinew_dtype dtype, const sinew_call_options* options,
                                sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_gather_v", dtype);
    start_call("sinew_all_gather_v", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const Parts parts = parts_of(elements.function, "out_counts", entry, out_counts, out_displacements);
                 const Buffer whole = out_of_parts(elements, out, parts, place);
                 return entry.communicator->all_gather_v(elements.in(in, own_count(entry, parts), 1, place), whole,
                                                         elements.dtype, parts, o);
               });
  });
}

sinew_status sinew_reduce_scatter_v(sinew_communicator communicator, const void* in, void* out,
                                    const uint64_t* in_counts, const uint64_t* in_displacements, sinew_dtype dtype,
                                    sinew_op op, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_reduce_scatter_v", dtype);
    start_call("sinew_reduce_scatter_v", communicator, options, work, elements.bytes(),
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const Parts parts = parts_of(elements.function, "in_counts", entry, in_counts, in_displacements);
                 const ConstBuffer whole = in_of_parts(elements, in, parts, place);
                 return entry.communicator->reduce_scatter_v(whole,
                                                             elements.out(out, own_count(entry, parts), 1, place),
                                                             elements.dtype, parts, elements.op(op), o);
               });
  });
}

sinew_status sinew_all_to_all_v(sinew_communicator communicator, const void* in, const uint64_t* in_counts,
                                const uint64_t* in_displacements, void* out, const uint64_t* out_counts,
                                const uint64_t* out_displacements, sinew_dtype dtype, const sinew_call_options* options,
                                sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_to_all_v", dtype);
    start_call("sinew_all_to_all_v", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const Parts in_parts = parts_of(elements.function, "in_counts", entry, in_counts, in_displacements);
                 const Parts out_parts =
                     parts_of(elements.function, "out_counts", entry, out_counts, out_displacements);
                 return entry.communicator->all_to_all_v(in_of_parts(elements, in, in_parts, place),
                                                         out_of_parts(elements, out, out_parts, place), elements.dtype,
                                                         in_parts, out_parts, o);
               });
  });
}

sinew_status sinew_gather_v(sinew_communicator communicator, const void* in, size_t in_count, void* out,
                            const uint64_t* out_counts, const uint64_t* out_displacements, sinew_dtype dtype, int root,
                            const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_gather_v", dtype);
    start_call("sinew_gather_v", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const ConstBuffer own = elements.in(in, in_count, 1, place);
                 if (entry.communicator->rank() != root)
                   return entry.communicator->gather_v(own, {nullptr, 0, place}, elements.dtype, root, {}, o);
                 const Parts parts = parts_of(elements.function, "out_counts", entry, out_counts, out_displacements);
                 return entry.communicator->gather_v(own, out_of_parts(elements, out, parts, place), elements.dtype,
                                                     root, parts, o);
               });
  });
}

sinew_status sinew_scatter_v(sinew_communicator communicator, const void* in, const uint64_t* in_counts,
                             const uint64_t* in_displacements, void* out, size_t out_count, sinew_dtype dtype, int root,
                             const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_scatter_v", dtype);
    start_call("sinew_scatter_v", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const Buffer own = elements.out(out, out_count, 1, place);
                 if (entry.communicator->rank() != root)
                   return entry.communicator->scatter_v({nullptr, 0, place}, own, elements.dtype, root, {}, o);
                 const Parts parts = parts_of(elements.function, "in_counts", entry, in_counts, in_displacements);
                 return entry.communicator->scatter_v(in_of_parts(elements, in, parts, place), own, elements.dtype,
                                                      root, parts, o);
               });
  });
}

}  // extern "C"
