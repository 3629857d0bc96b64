#pragma once

#include <string>

#include <sinew/topology/machine.hpp>

namespace sinew::tools {

/// The machine as a graph in Graphviz's language: NUMA nodes, PCI devices, GPUs, NVSwitches and NICs with the links
/// between them. A frame encloses the parts of a package.
std::string machine_dot(const Machine& machine);

}  // namespace sinew::tools
