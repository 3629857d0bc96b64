#include <climits>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "mpi_ranks.hpp"
#include "peer.hpp"

/// The peer module of one MPI: built once per MPI found, from this file alone.
namespace sinew::bench {
namespace {

constexpr int kTag = 7;
constexpr std::size_t kWindow = 64;

struct State {
  int rank = 0;
  int size = 1;
  PeerCall call = PeerCall::Barrier;
  MPI_Datatype dtype = MPI_BYTE;
  MPI_Op op = MPI_SUM;
  int count = 0;
  int root = 0;
  bool in_place = false;
  std::vector<int> counts;  // of the v-forms
  std::vector<int> starts;
  std::vector<MPI_Request> window = std::vector<MPI_Request>(kWindow, MPI_REQUEST_NULL);
  std::size_t oldest = 0;
};

State& state() {
  static State only;
  return only;
}

struct DTypeRow {
  std::string_view name;
  MPI_Datatype type;
};
struct OpRow {
  std::string_view name;
  MPI_Op op;
};

void start() {
  mpi_ranks::start();
  state().rank = mpi_ranks::rank();
  state().size = mpi_ranks::size();
}

bool is_v_form(PeerCall call) {
  return call == PeerCall::AllGatherV || call == PeerCall::ReduceScatterV || call == PeerCall::AllToAllV;
}

bool combines(PeerCall call) {
  return call == PeerCall::AllReduce || call == PeerCall::Reduce || call == PeerCall::ReduceScatter ||
         call == PeerCall::ReduceScatterV;
}

/// false: a place is beyond int.
bool take_counts(State& s, const std::uint64_t* counts) {
  s.counts.clear();
  s.starts.clear();
  std::uint64_t next = 0;
  for (int r = 0; r < s.size; ++r) {
    s.starts.push_back(static_cast<int>(next));
    s.counts.push_back(static_cast<int>(counts[r]));
    next += counts[r];
    if (next > INT_MAX) return false;
  }
  return true;
}

const char* prepare(PeerCall call, const char* dtype, const char* op, std::uint64_t count, const std::uint64_t* counts,
                    int root, bool in_place) {
  const DTypeRow dtypes[] = {{"i8", MPI_INT8_T},   {"u8", MPI_UINT8_T},   {"i16", MPI_INT16_T}, {"u16", MPI_UINT16_T},
                             {"i32", MPI_INT32_T}, {"u32", MPI_UINT32_T}, {"i64", MPI_INT64_T}, {"u64", MPI_UINT64_T},
                             {"f32", MPI_FLOAT},   {"f64", MPI_DOUBLE}};
  const OpRow ops[] = {{"sum", MPI_SUM},   {"prod", MPI_PROD}, {"min", MPI_MIN},  {"max", MPI_MAX},
                       {"band", MPI_BAND}, {"bor", MPI_BOR},   {"bxor", MPI_BXOR}};
  State& s = state();
  if (count > INT_MAX || (is_v_form(call) && !take_counts(s, counts))) return "counts beyond 2147483647";
  s.call = call;
  s.count = static_cast<int>(count);
  s.root = root;
  s.in_place = in_place;
  s.dtype = MPI_DATATYPE_NULL;
  for (const DTypeRow& row : dtypes) {
    if (row.name == dtype) s.dtype = row.type;
  }
  if (s.dtype == MPI_DATATYPE_NULL) return "this dtype";
  if ((call == PeerCall::ReduceScatter || call == PeerCall::ReduceScatterV) && in_place)
    return "a result that stays where its block was";
  if (!combines(call)) return nullptr;
  for (const OpRow& row : ops) {
    if (row.name == op) {
      s.op = row.op;
      return nullptr;
    }
  }
  return "this operator";
}

void send_recv(const State& s, const void* in, void* out) {
  const int right = (s.rank + 1) % s.size;
  const int left = (s.rank + s.size - 1) % s.size;
  MPI_Sendrecv(in, s.count, s.dtype, right, kTag, out, s.count, s.dtype, left, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void ping_pong(const State& s, const void* in, void* out) {
  if (s.rank == 0) {
    MPI_Send(in, s.count, s.dtype, 1, kTag, MPI_COMM_WORLD);
    MPI_Recv(out, s.count, s.dtype, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (s.rank == 1) {
    MPI_Recv(out, s.count, s.dtype, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(in, s.count, s.dtype, 0, kTag, MPI_COMM_WORLD);
  }
}

void stream(State& s, const void* in, void* out) {
  if (s.rank > 1) return;
  MPI_Request& next = s.window[s.oldest++ % kWindow];
  MPI_Wait(&next, MPI_STATUS_IGNORE);
  if (s.rank == 0) MPI_Isend(in, s.count, s.dtype, 1, kTag, MPI_COMM_WORLD, &next);
  if (s.rank == 1) MPI_Irecv(out, s.count, s.dtype, 0, kTag, MPI_COMM_WORLD, &next);
}

void run(const void* in, void* out) {
  State& s = state();
  const void* from = s.in_place ? MPI_IN_PLACE : in;
  const bool is_root = s.rank == s.root;
  switch (s.call) {
    case PeerCall::AllReduce: MPI_Allreduce(from, out, s.count, s.dtype, s.op, MPI_COMM_WORLD); return;
    case PeerCall::AllGather: MPI_Allgather(from, s.count, s.dtype, out, s.count, s.dtype, MPI_COMM_WORLD); return;
    case PeerCall::ReduceScatter: MPI_Reduce_scatter_block(in, out, s.count, s.dtype, s.op, MPI_COMM_WORLD); return;
    case PeerCall::AllToAll: MPI_Alltoall(from, s.count, s.dtype, out, s.count, s.dtype, MPI_COMM_WORLD); return;
    case PeerCall::Broadcast: MPI_Bcast(out, s.count, s.dtype, s.root, MPI_COMM_WORLD); return;
    case PeerCall::Reduce: MPI_Reduce(is_root ? from : in, out, s.count, s.dtype, s.op, s.root, MPI_COMM_WORLD); return;
    case PeerCall::Gather:
      MPI_Gather(is_root ? from : in, s.count, s.dtype, out, s.count, s.dtype, s.root, MPI_COMM_WORLD);
      return;
    case PeerCall::Scatter:
      MPI_Scatter(in, s.count, s.dtype, s.in_place && is_root ? MPI_IN_PLACE : out, s.count, s.dtype, s.root,
                  MPI_COMM_WORLD);
      return;
    case PeerCall::AllGatherV:
      MPI_Allgatherv(from, s.counts[static_cast<std::size_t>(s.rank)], s.dtype, out, s.counts.data(), s.starts.data(),
                     s.dtype, MPI_COMM_WORLD);
      return;
    case PeerCall::ReduceScatterV: MPI_Reduce_scatter(in, out, s.counts.data(), s.dtype, s.op, MPI_COMM_WORLD); return;
    case PeerCall::AllToAllV:
      MPI_Alltoallv(from, s.counts.data(), s.starts.data(), s.dtype, out, s.counts.data(), s.starts.data(), s.dtype,
                    MPI_COMM_WORLD);
      return;
    case PeerCall::Barrier: MPI_Barrier(MPI_COMM_WORLD); return;
    case PeerCall::SendRecv: send_recv(s, in, out); return;
    case PeerCall::Latency: ping_pong(s, in, out); return;
    case PeerCall::Bandwidth: stream(s, in, out); return;
  }
}

/// The end of a stream is when the receiver has it all.
void finish() {
  State& s = state();
  if (s.call != PeerCall::Bandwidth || s.rank > 1) return;
  MPI_Waitall(static_cast<int>(kWindow), s.window.data(), MPI_STATUSES_IGNORE);
  char nothing = 0;
  if (s.rank == 1) MPI_Send(&nothing, 0, MPI_BYTE, 0, kTag + 1, MPI_COMM_WORLD);
  if (s.rank == 0) MPI_Recv(&nothing, 0, MPI_BYTE, 1, kTag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// Open MPI tells a sender that its message was fetched where there is room to tell, or else in the receiver's next
/// call: a receiver that went to wait elsewhere would leave its sender waiting for ever.
void settle() { MPI_Barrier(MPI_COMM_WORLD); }

constexpr Peer kPeer{
    kPeerAbi, mpi_ranks::name, start, mpi_ranks::stop, mpi_ranks::rank, mpi_ranks::size, mpi_ranks::all_gather, prepare,
    run,      finish,          settle};

}  // namespace
}  // namespace sinew::bench

extern "C" [[gnu::visibility("default")]] const sinew::bench::Peer* sinew_bench_peer() { return &sinew::bench::kPeer; }
