#pragma once

#include <string>
#include <vector>

#include <sinew/topology/machine.hpp>

namespace sinew {

/// Distances of GPUs, NICs with a PCI place and, beside them, NUMA nodes, as lines of a table and the meaning of the
/// words in it. Nothing unless there are GPUs or several such NICs.
std::vector<std::string> distance_matrix(const Machine& machine);

}  // namespace sinew
