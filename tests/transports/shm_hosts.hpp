#pragma once

#include <string>
#include <vector>

#include <sinew/transports/shm/model/levels.hpp>

namespace sinew::test {

/// Machines with two sockets, as hwloc describes them: AMD EPYC with 4 NUMA nodes per socket and a cache for each 8
/// cores, and Intel Xeon with one NUMA node and one cache per socket.
inline const std::string kEpyc128 = "pack:2 numa:4 l3:2 core:8 pu:1";
inline const std::string kXeon64 = "pack:2 numa:1 l3:1 core:32 pu:1";
inline const std::string kXeon256 = "pack:2 numa:1 l3:1 core:128 pu:1";

/// The parts of ranks that are bound to these cores of a machine, by the way that a World finds them.
std::vector<PartsOfRanks> parts_on(const std::string& machine, const std::vector<int>& cores);
/// Rank r is on core r.
std::vector<PartsOfRanks> parts_on(const std::string& machine, int ranks);
shm::Levels levels_on(const std::string& machine, int ranks);

}  // namespace sinew::test
