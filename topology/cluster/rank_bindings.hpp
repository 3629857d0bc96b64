#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Where on a host a rank would be put.
struct RankBinding {
  std::string part;    ///< "gpu:0", or of a socket its first NUMA node, "numa:0"; empty: the machine does not say
  int nic = 0;         ///< the nearest one's place among the NICs that ranks may use
  int numa_node = -1;  ///< -1: none, or none is nearer than another: NVLink joins the GPUs
  friend bool operator==(const RankBinding&, const RankBinding&) = default;
};

/// A rank per GPU, else per socket.
SINEW_API int usual_ranks(const Machine& machine);

/// So many of them: a GPU each, or round the sockets, each with the nearest of `nics` (NicAssigner).
/// Errors: Error{InvalidArgument} for more ranks than GPUs, or cores where there are none.
SINEW_API std::vector<RankBinding> bind_ranks(const Machine& machine, std::span<const int> nics, int ranks);

}  // namespace sinew
