#pragma once

#include <sinew/topology/machine.hpp>

namespace sinew {

/// What a described machine must hold beyond reject_inconsistent(), so that it can be planned and simulated on: rates
/// and latencies that a machine can have, parts in numbers that one host has, each of them once, and places that are
/// there; names that a terminal can show.
/// Errors: FieldError: "nics[2].bytes_per_s.value: expected 1 to 1e+15 bytes/s, found -5".
void reject_implausible(const Machine& machine);

}  // namespace sinew
