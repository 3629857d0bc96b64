#pragma once

#include <sinew/topology/machine.hpp>

/// The DGX machines of named_machine().
namespace sinew::machine_parts {

Machine dgx_a100();
Machine dgx_h100();
Machine dgx_h200();

}  // namespace sinew::machine_parts
