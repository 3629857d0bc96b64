#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The machine that lstopo or another program on hwloc saw (`lstopo machine.xml`), read by hwloc. Network interfaces
/// are those that hwloc found below PCI; their state and rate are not in such a file. What the file has beside that is
/// in Machine::ignored. Errors: Error{InvalidArgument}
/// that names the file where hwloc refuses it.
SINEW_API Machine machine_from_hwloc_xml(const std::string& text, const std::string& file);

}  // namespace sinew
