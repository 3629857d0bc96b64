#include <string>
#include <vector>

#include <sinew/c/calls.h>
#include <sinew/c/functions/call.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

/// A list of a buffer for each rank.
/// Errors: InvalidArgument for a null pointer to the list or to the counts.
template <class BufferType, class Data>
std::vector<BufferType> list_of(const Elements& elements, const char* name, const CommunicatorEntry& entry,
                                Data* const* list, const std::uint64_t* counts, Place place) {
  require_pointer(elements.function, name, list);
  require_pointer(elements.function, "counts", counts);
  std::vector<BufferType> buffers;
  for (std::size_t r = 0; r < static_cast<std::size_t>(entry.communicator->size()); ++r) {
    if constexpr (std::is_const_v<Data>) {
      buffers.push_back(elements.in(list[r], counts[r], 1, place));
    } else {
      buffers.push_back(elements.out(list[r], counts[r], 1, place));
    }
  }
  return buffers;
}

/// The length of this rank's own buffer.
std::uint64_t own_count(const Elements& elements, const CommunicatorEntry& entry, const std::uint64_t* counts) {
  require_pointer(elements.function, "counts", counts);
  return counts[static_cast<std::size_t>(entry.communicator->rank())];
}

}  // namespace

extern "C" {

sinew_status sinew_all_gather_list(sinew_communicator communicator, const void* in, void* const* outs,
                                   const uint64_t* counts, sinew_dtype dtype, const sinew_call_options* options,
                                   sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_gather_list", dtype);
    start_call("sinew_all_gather_list", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const auto list = list_of<Buffer>(elements, "outs", entry, outs, counts, place);
                 return entry.communicator->all_gather(elements.in(in, own_count(elements, entry, counts), 1, place),
                                                       list, elements.dtype, o);
               });
  });
}

sinew_status sinew_reduce_scatter_list(sinew_communicator communicator, const void* const* ins, void* out,
                                       const uint64_t* counts, sinew_dtype dtype, sinew_op op,
                                       const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_reduce_scatter_list", dtype);
    start_call("sinew_reduce_scatter_list", communicator, options, work, elements.bytes(),
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const auto list = list_of<ConstBuffer>(elements, "ins", entry, ins, counts, place);
                 return entry.communicator->reduce_scatter(
                     list, elements.out(out, own_count(elements, entry, counts), 1, place), elements.dtype,
                     elements.op(op), o);
               });
  });
}

sinew_status sinew_all_to_all_list(sinew_communicator communicator, const void* const* ins, const uint64_t* in_counts,
                                   void* const* outs, const uint64_t* out_counts, sinew_dtype dtype,
                                   const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_to_all_list", dtype);
    start_call("sinew_all_to_all_list", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const auto in_list = list_of<ConstBuffer>(elements, "ins", entry, ins, in_counts, place);
                 const auto out_list = list_of<Buffer>(elements, "outs", entry, outs, out_counts, place);
                 return entry.communicator->all_to_all(in_list, out_list, elements.dtype, o);
               });
  });
}

sinew_status sinew_gather_list(sinew_communicator communicator, const void* in, size_t in_count, void* const* outs,
                               const uint64_t* out_counts, sinew_dtype dtype, int root,
                               const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_gather_list", dtype);
    start_call("sinew_gather_list", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 std::vector<Buffer> list;
                 if (entry.communicator->rank() == root)
                   list = list_of<Buffer>(elements, "outs", entry, outs, out_counts, place);
                 return entry.communicator->gather(elements.in(in, in_count, 1, place), list, elements.dtype, root, o);
               });
  });
}

sinew_status sinew_scatter_list(sinew_communicator communicator, const void* const* ins, const uint64_t* in_counts,
                                void* out, size_t out_count, sinew_dtype dtype, int root,
                                const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_scatter_list", dtype);
    start_call("sinew_scatter_list", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 std::vector<ConstBuffer> list;
                 if (entry.communicator->rank() == root)
                   list = list_of<ConstBuffer>(elements, "ins", entry, ins, in_counts, place);
                 return entry.communicator->scatter(list, elements.out(out, out_count, 1, place), elements.dtype, root,
                                                    o);
               });
  });
}

}  // extern "C"
