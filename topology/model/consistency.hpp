#pragma once

#include <sinew/topology/machine.hpp>

namespace sinew {

/// What a Machine that was written by others must hold, so that its readers need not look: core numbers are indices in
/// Machine::cores, bridges above PCI devices are there and lead upwards, links of GPUs and NVSwitches join such as
/// exist, and so do the GPUs of pairs. Errors: Error{InvalidArgument} that names the place: "packages[0].cores[2]:
/// expected an index ...".
void reject_inconsistent(const Machine& machine);

}  // namespace sinew
