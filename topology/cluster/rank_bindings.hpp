#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The parts of a host to which a rank is bound.
struct RankBinding {
  std::string part;    ///< "gpu:0", or "numa:0" for the first NUMA node of a socket; empty: unknown
  int nic = 0;         ///< the index of the nearest NIC among those that ranks may use
  int numa_node = -1;  ///< -1: none, or all are equally near, since NVLink joins the GPUs
  friend bool operator==(const RankBinding&, const RankBinding&) = default;
};

/// The usual number of ranks on a machine: one for each GPU, or one for each socket if there is no GPU.
SINEW_API int usual_ranks(const Machine& machine);

/// Binds `ranks` ranks. Each gets a GPU, or the ranks go round the sockets. Each gets the nearest of `nics`
/// (NicAssigner).
/// Errors: Error{InvalidArgument} for more ranks than GPUs, or than cores if there is no GPU.
SINEW_API std::vector<RankBinding> bind_ranks(const Machine& machine, std::span<const int> nics, int ranks);

}  // namespace sinew
