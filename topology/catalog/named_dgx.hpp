#pragma once

#include <sinew/topology/machine.hpp>

/// The machines with GPUs of named_machine().
namespace sinew::machine_parts {

Machine dgx_a100();
Machine dgx_h100();
Machine dgx_h200();
Machine dgx_b200();
Machine aws_p5();

}  // namespace sinew::machine_parts
