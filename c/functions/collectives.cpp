#include <sinew/c/calls.h>
#include <sinew/c/functions/call.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

std::uint64_t ranks_of(const CommunicatorEntry& entry) noexcept {
  return static_cast<std::uint64_t>(entry.communicator->size());
}

}  // namespace

extern "C" {

sinew_status sinew_all_reduce(sinew_communicator communicator, const void* in, void* out, size_t count,
                              sinew_dtype dtype, sinew_op op, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_reduce", dtype);
    start_call("sinew_all_reduce", communicator, options, work, elements.bytes(),
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->all_reduce(elements.in(in, count, 1, place),
                                                       elements.out(out, count, 1, place), elements.dtype,
                                                       elements.op(op), o);
               });
  });
}

sinew_status sinew_all_gather(sinew_communicator communicator, const void* in, void* out, size_t count,
                              sinew_dtype dtype, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_gather", dtype);
    start_call("sinew_all_gather", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->all_gather(elements.in(in, count, 1, place),
                                                       elements.out(out, count, ranks_of(entry), place), elements.dtype,
                                                       o);
               });
  });
}

sinew_status sinew_reduce_scatter(sinew_communicator communicator, const void* in, void* out, size_t count,
                                  sinew_dtype dtype, sinew_op op, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_reduce_scatter", dtype);
    start_call("sinew_reduce_scatter", communicator, options, work, elements.bytes(),
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->reduce_scatter(elements.in(in, count, ranks_of(entry), place),
                                                           elements.out(out, count, 1, place), elements.dtype,
                                                           elements.op(op), o);
               });
  });
}

sinew_status sinew_all_to_all(sinew_communicator communicator, const void* in, void* out, size_t count,
                              sinew_dtype dtype, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_all_to_all", dtype);
    start_call("sinew_all_to_all", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->all_to_all(elements.in(in, count, ranks_of(entry), place),
                                                       elements.out(out, count, ranks_of(entry), place), elements.dtype,
                                                       o);
               });
  });
}

sinew_status sinew_broadcast(sinew_communicator communicator, void* data, size_t count, sinew_dtype dtype, int root,
                             const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_broadcast", dtype);
    start_call("sinew_broadcast", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->broadcast(elements.out(data, count, 1, place), elements.dtype, root, o);
               });
  });
}

sinew_status sinew_reduce(sinew_communicator communicator, const void* in, void* out, size_t count, sinew_dtype dtype,
                          sinew_op op, int root, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_reduce", dtype);
    start_call("sinew_reduce", communicator, options, work, elements.bytes(),
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->reduce(elements.in(in, count, 1, place), elements.out(out, count, 1, place),
                                                   elements.dtype, root, elements.op(op), o);
               });
  });
}

sinew_status sinew_gather(sinew_communicator communicator, const void* in, void* out, size_t count, sinew_dtype dtype,
                          int root, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_gather", dtype);
    start_call("sinew_gather", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->gather(elements.in(in, count, 1, place),
                                                   elements.out(out, count, ranks_of(entry), place), elements.dtype,
                                                   root, o);
               });
  });
}

sinew_status sinew_scatter(sinew_communicator communicator, const void* in, void* out, size_t count, sinew_dtype dtype,
                           int root, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const Elements elements("sinew_scatter", dtype);
    start_call("sinew_scatter", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->scatter(elements.in(in, count, ranks_of(entry), place),
                                                    elements.out(out, count, 1, place), elements.dtype, root, o);
               });
  });
}

sinew_status sinew_barrier(sinew_communicator communicator, const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    start_call("sinew_barrier", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place) { return entry.communicator->barrier(o); });
  });
}

}  // extern "C"
