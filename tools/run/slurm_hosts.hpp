#pragma once

#include <vector>

#include <sinew/collectives/launch/lookup.hpp>

#include "options.hpp"

namespace sinew::run {

/// The nodes of the allocation this process is in, with their tasks; none outside of one.
/// Errors: Error{InvalidArgument} naming the variables that are wrong or contradict each other.
std::vector<HostShare> slurm_hosts(const Lookup& lookup);

}  // namespace sinew::run
