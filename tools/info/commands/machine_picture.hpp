#pragma once

#include <string>

#include <sinew/topology/machine.hpp>

namespace sinew::tools {

/// The machine as SVG: boxes in boxes, each where it is attached. Every core, GPU and NIC is there once. A tooltip has
/// the text of sinew-info topology, with the sources of all figures.
std::string machine_picture(const Machine& machine);

}  // namespace sinew::tools
