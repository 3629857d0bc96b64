#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/topology/catalog/named_networks.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The host model of a machine that is none of host_models(): the rates of its links, and the latencies of the one of
/// those that is most like it. What the machine does not say is taken from there, too, and named in `assumed`. `nics`:
/// those that ranks use.
HostModel rates_of(const Machine& machine, std::span<const int> nics, std::vector<std::string>& assumed);

}  // namespace sinew
