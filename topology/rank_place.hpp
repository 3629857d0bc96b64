#pragma once

#include <string>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/export.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// What every rank says of itself when a World starts: a few dozen bytes, read without hwloc.
struct RankPlace {
  std::string host;        ///< host_identity()
  int numa_node = -1;      ///< the only one its CPUs belong to; -1: several, or unknown
  std::vector<int> cpus;   ///< of its affinity mask
  double quota_cores = 0;  ///< of its cgroup; 0: no limit
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

SINEW_API RankPlace place_of_this_process(const Config& config);

SINEW_API Bytes to_bytes(const RankPlace& place);
/// Errors: Error{InvalidArgument} saying what is wrong with the bytes.
SINEW_API RankPlace rank_place_from_bytes(const Bytes& bytes);

}  // namespace sinew
