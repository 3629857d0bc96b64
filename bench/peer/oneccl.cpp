#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <oneapi/ccl.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include <mpi.h>

#include "mpi_ranks.hpp"
#include "peer.hpp"

// The archive of oneCCL for CPUs was made by Intel's compiler. These are the symbols of its libraries that the archive
// takes for granted, so that the module links with any compiler. The profiler's hooks may be null.
extern "C" {
__attribute__((weak)) void* _intel_fast_memcpy(void* to, const void* from, std::size_t bytes) {
  return std::memcpy(to, from, bytes);
}
__attribute__((weak)) void* _intel_fast_memset(void* to, int value, std::size_t bytes) {
  return std::memset(to, value, bytes);
}
__attribute__((weak)) void* __itt_string_handle_create_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_domain_create_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_task_begin_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_task_end_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_metadata_add_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_thread_set_name_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_event_create_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_event_start_ptr__3_0 = nullptr;
__attribute__((weak)) void* __itt_event_end_ptr__3_0 = nullptr;
}

/// The peer module of oneCCL for CPUs. Its ranks are those of the Intel MPI in the same prefix.
namespace sinew::bench {
namespace {

struct State {
  std::optional<ccl::communicator> all;
  PeerCall call = PeerCall::Barrier;
  ccl::datatype dtype = ccl::datatype::float32;
  ccl::reduction op = ccl::reduction::sum;
  std::size_t count = 0;
  int root = 0;
};

State& state() {
  static State only;
  return only;
}

const char* name() { return "oneCCL"; }

/// Over MPI it is faster between processes of a host than over libfabric. The user's own settings count.
void start() {
  setenv("CCL_ATL_TRANSPORT", "mpi", 0);
  setenv("CCL_LOG_LEVEL", "error", 0);
  mpi_ranks::start();
  ccl::init();
  ccl::kvs::address_type address{};
  std::shared_ptr<ccl::kvs> store;
  if (mpi_ranks::rank() == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (!store) store = ccl::create_kvs(address);
  state().all.emplace(ccl::create_communicator(mpi_ranks::size(), mpi_ranks::rank(), store));
}

void stop() {
  state().all.reset();
  mpi_ranks::stop();
}

const char* prepare(PeerCall call, const char* dtype, const char* op, std::uint64_t count, const std::uint64_t*,
                    int root, bool in_place) {
  constexpr std::pair<std::string_view, ccl::datatype> kTypes[] = {
      {"i8", ccl::datatype::int8},     {"u8", ccl::datatype::uint8},    {"i32", ccl::datatype::int32},
      {"i64", ccl::datatype::int64},   {"f16", ccl::datatype::float16}, {"bf16", ccl::datatype::bfloat16},
      {"f32", ccl::datatype::float32}, {"f64", ccl::datatype::float64}};
  constexpr std::pair<std::string_view, ccl::reduction> kOps[] = {{"sum", ccl::reduction::sum},
                                                                  {"prod", ccl::reduction::prod},
                                                                  {"min", ccl::reduction::min},
                                                                  {"max", ccl::reduction::max}};
  State& s = state();
  switch (call) {
    case PeerCall::AllReduce:
    case PeerCall::AllGather:
    case PeerCall::ReduceScatter:
    case PeerCall::AllToAll:
    case PeerCall::Broadcast:
    case PeerCall::Reduce:
    case PeerCall::Barrier: break;
    default: return "this collective";
  }
  if (in_place && call != PeerCall::AllReduce) return "this collective in place";
  s.call = call;
  s.count = count;
  s.root = root;
  const char* lacking = "this dtype";
  for (const auto& [of, type] : kTypes) {
    if (of != dtype) continue;
    s.dtype = type;
    lacking = nullptr;
  }
  if (lacking != nullptr ||
      (call != PeerCall::AllReduce && call != PeerCall::ReduceScatter && call != PeerCall::Reduce))
    return lacking;
  for (const auto& [of, reduction] : kOps) {
    if (of != op) continue;
    s.op = reduction;
    return nullptr;
  }
  return "this operator";
}

void run(const void* in, void* out) {
  State& s = state();
  void* const from = const_cast<void*>(in);
  switch (s.call) {
    case PeerCall::AllReduce: ccl::allreduce(from, out, s.count, s.dtype, s.op, *s.all).wait(); return;
    case PeerCall::AllGather: ccl::allgather(from, out, s.count, s.dtype, *s.all).wait(); return;
    case PeerCall::ReduceScatter: ccl::reduce_scatter(from, out, s.count, s.dtype, s.op, *s.all).wait(); return;
    case PeerCall::AllToAll: ccl::alltoall(from, out, s.count, s.dtype, *s.all).wait(); return;
    case PeerCall::Broadcast: ccl::broadcast(out, s.count, s.dtype, s.root, *s.all).wait(); return;
    case PeerCall::Reduce: ccl::reduce(from, out, s.count, s.dtype, s.op, s.root, *s.all).wait(); return;
    default: ccl::barrier(*s.all).wait(); return;
  }
}

void finish() {}
void settle() { MPI_Barrier(MPI_COMM_WORLD); }

constexpr Peer kPeer{kPeerAbi, name, start,  stop,  mpi_ranks::rank, mpi_ranks::size, mpi_ranks::all_gather,
                     prepare,  run,  finish, settle};

}  // namespace
}  // namespace sinew::bench

extern "C" [[gnu::visibility("default")]] const sinew::bench::Peer* sinew_bench_peer() { return &sinew::bench::kPeer; }
