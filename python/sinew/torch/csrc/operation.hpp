#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace sinew::torch_backend {

/// What a call of c10d is called. All texts are literals.
struct Operation {
  const char* function;  ///< of SinewBackend, for errors about arguments
  const char* title;     ///< in the profiler: "sinew:" and the name
  c10d::OpType type;

  constexpr const char* name() const noexcept { return title + sizeof("sinew:") - 1; }
  bool message() const noexcept {
    return type == c10d::OpType::SEND || type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
  }
};

namespace operations {

using c10d::OpType;

inline constexpr Operation kBroadcast{"broadcast", "sinew:broadcast", OpType::BROADCAST};
inline constexpr Operation kAllReduce{"allreduce", "sinew:all_reduce", OpType::ALLREDUCE};
inline constexpr Operation kAllReduceCoalesced{"allreduce_coalesced", "sinew:all_reduce", OpType::ALLREDUCE_COALESCED};
inline constexpr Operation kAllReduceSparse{"allreduce", "sinew:sparse_all_reduce", OpType::_ALLREDUCE_SPARSE};
inline constexpr Operation kReduce{"reduce", "sinew:reduce", OpType::REDUCE};
inline constexpr Operation kAllGather{"allgather", "sinew:all_gather", OpType::ALLGATHER};
inline constexpr Operation kAllGatherSingle{"all_gather_single", "sinew:all_gather", OpType::_ALLGATHER_BASE};
inline constexpr Operation kAllGatherCoalesced{"allgather_coalesced", "sinew:all_gather", OpType::ALLGATHER_COALESCED};
inline constexpr Operation kAllGatherSingleCoalesced{"all_gather_single_coalesced", "sinew:all_gather",
                                                     OpType::ALLGATHER_COALESCED};
inline constexpr Operation kGather{"gather", "sinew:gather", OpType::GATHER};
inline constexpr Operation kGatherSingle{"gather_single", "sinew:gather", OpType::GATHER};
inline constexpr Operation kScatter{"scatter", "sinew:scatter", OpType::SCATTER};
inline constexpr Operation kReduceScatter{"reduce_scatter", "sinew:reduce_scatter", OpType::REDUCE_SCATTER};
inline constexpr Operation kReduceScatterSingle{"reduce_scatter_single", "sinew:reduce_scatter",
                                                OpType::_REDUCE_SCATTER_BASE};
inline constexpr Operation kReduceScatterSingleCoalesced{"reduce_scatter_single_coalesced", "sinew:reduce_scatter",
                                                         OpType::_REDUCE_SCATTER_BASE};
inline constexpr Operation kAllToAllSingle{"all_to_all_single", "sinew:all_to_all", OpType::ALLTOALL_BASE};
inline constexpr Operation kAllToAll{"alltoall", "sinew:all_to_all", OpType::ALLTOALL};
inline constexpr Operation kSend{"send", "sinew:send", OpType::SEND};
inline constexpr Operation kRecv{"recv", "sinew:recv", OpType::RECV};
inline constexpr Operation kRecvAnySource{"recvAnysource", "sinew:recvAnySource", OpType::RECVANYSOURCE};
inline constexpr Operation kBarrier{"barrier", "sinew:barrier", OpType::BARRIER};

}  // namespace operations
}  // namespace sinew::torch_backend
