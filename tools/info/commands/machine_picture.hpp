#pragma once

#include <string>

#include <sinew/topology/machine.hpp>

namespace sinew::tools {

/// The machine as SVG: boxes in boxes, each where it is attached; every core, GPU and NIC once. Where the pointer rests
/// is what sinew-info topology prints, with the sources of all figures.
std::string machine_picture(const Machine& machine);

}  // namespace sinew::tools
