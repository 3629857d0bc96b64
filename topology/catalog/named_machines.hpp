#pragma once

#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// "dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "aws-p5", "xeon-2s", "epyc-2s".
SINEW_API std::vector<std::string_view> machine_names();

/// A machine as its public datasheet describes it; every figure names its source. PCI addresses of DGX GPUs, NICs and
/// NVSwitches are those that their user guides and public listings show; those of the bridges in between are chosen.
/// Errors: Error{InvalidArgument} that lists the names.
SINEW_API Machine named_machine(std::string_view name);

}  // namespace sinew
