#pragma once

#include <cstddef>
#include <cstdint>

/// The functions by which sinew-bench measures another communication library in the same processes on the same buffers.
/// A module is compiled against that library, loaded at run time, and has one entry point, sinew_bench_peer. All ranks
/// call each function together, none throws; the library's own errors end the job.
namespace sinew::bench {

inline constexpr std::uint32_t kPeerAbi = 5;

enum class PeerCall : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Barrier,
  Reduce,
  Gather,
  Scatter,
  AllGatherV,
  ReduceScatterV,
  AllToAllV,
  SendRecv,
  Latency,
  Bandwidth,
};

struct Peer {
  std::uint32_t abi = kPeerAbi;
  /// "Open MPI v4.1.4"; valid after start.
  const char* (*name)() = nullptr;
  void (*start)() = nullptr;
  void (*stop)() = nullptr;
  int (*rank)() = nullptr;
  int (*size)() = nullptr;
  /// Passes the bytes of all ranks to `take`, in the order of the ranks. Null: the library cannot do that, and the ranks
  /// meet by their launcher's variables.
  void (*all_gather)(const void* mine, std::size_t bytes, void* context,
                     void (*take)(void* context, const void* data, std::size_t bytes)) = nullptr;
  /// What run() will do from now on: a call, dtype and operator by sinew's names, elements per rank as sinew counts,
  /// `counts`: of the v-forms, one per rank, packed; sent and received alike. The root, where the call has one. In
  /// place or not. Null, or why this library cannot.
  const char* (*prepare)(PeerCall call, const char* dtype, const char* op, std::uint64_t count,
                         const std::uint64_t* counts, int root, bool in_place) = nullptr;
  /// One call; of Bandwidth, one message, which is on its way until finish().
  void (*run)(const void* in, void* out) = nullptr;
  void (*finish)() = nullptr;
  /// Returns when no rank needs this one in order to end what it has started.
  void (*settle)() = nullptr;
};

using PeerEntry = const Peer* (*)();
inline constexpr const char* kPeerEntryName = "sinew_bench_peer";

}  // namespace sinew::bench
