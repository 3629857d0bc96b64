#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The machine as a short tree for people, with units; ends with what could not be seen and why.
SINEW_API std::string to_text(const Machine& machine);

/// One line per host: its name, ranks by NUMA node, usable cores.
SINEW_API std::string to_text(const Cluster& cluster);

}  // namespace sinew
