#include <vector>

#include <fmt/format.h>

#include <sinew/c/calls.h>
#include <sinew/c/functions/call.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

Buffer written(void* data, std::size_t bytes, Place place) noexcept {
  return {static_cast<std::byte*>(data), bytes, place};
}
ConstBuffer read(const void* data, std::size_t bytes, Place place) noexcept {
  return {static_cast<const std::byte*>(data), bytes, place};
}

}  // namespace

extern "C" {

sinew_status sinew_send(sinew_communicator communicator, const void* from, size_t bytes, int to_rank, uint32_t tag,
                        const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    start_call("sinew_send", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->send(read(from, bytes, place), to_rank, tag, o);
               });
  });
}

sinew_status sinew_recv(sinew_communicator communicator, void* to, size_t bytes, int from_rank, uint32_t tag,
                        const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    start_call("sinew_recv", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->recv(written(to, bytes, place), from_rank, tag, o);
               });
  });
}

sinew_status sinew_recv_any(sinew_communicator communicator, void* to, size_t bytes, uint32_t tag, int* source,
                            const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const char* const function = "sinew_recv_any";
    if (work != nullptr && source != nullptr)
      reject(function, "both source and work are given: with a work, sinew_wait_source tells the rank");
    start_call(function, communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 Work call = entry.communicator->recv_any(written(to, bytes, place), tag, o);
                 if (work != nullptr) return call;
                 // The work of a message tells its source as long as it is there.
                 call.get();
                 if (source != nullptr) *source = call.source();
                 return Work();
               });
  });
}

sinew_status sinew_sendrecv(sinew_communicator communicator, const void* from, size_t from_bytes, int to_rank,
                            uint32_t send_tag, void* to, size_t to_bytes, int from_rank, uint32_t recv_tag,
                            const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    start_call("sinew_sendrecv", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 return entry.communicator->sendrecv(read(from, from_bytes, place), to_rank,
                                                     written(to, to_bytes, place), from_rank, send_tag, recv_tag, o);
               });
  });
}

sinew_status sinew_group(sinew_communicator communicator, const sinew_message* messages, size_t count,
                         const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    start_call("sinew_group", communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place) {
                 if (count != 0) require_pointer("sinew_group", "messages", messages);
                 std::vector<Message> all;
                 for (std::size_t i = 0; i < count; ++i) {
                   const sinew_message& m = messages[i];
                   require_unused("sinew_group", "unused of a sinew_message", m.unused);
                   all.push_back({m.sends != 0,
                                  written(m.memory, m.bytes, place_of("sinew_group", m.memory_kind, m.memory_device)),
                                  m.peer, m.tag});
                 }
                 return entry.communicator->group(all, o);
               });
  });
}

sinew_status sinew_run(sinew_communicator communicator, sinew_plan plan, const void* in, void* out,
                       const sinew_call_options* options, sinew_work* work) {
  return guarded([&] {
    const char* const function = "sinew_run";
    start_call(function, communicator, options, work, 0,
               [&](CommunicatorEntry& entry, const CallOptions& o, Place place) {
                 const UseBeside<PlanEntry> planned(function, plan.id, entry.of);
                 return entry.communicator->run(*planned->plan, read(in, planned->in_bytes, place),
                                                written(out, planned->out_bytes, place), o);
               });
  });
}

}  // extern "C"
