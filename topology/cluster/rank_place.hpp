#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// What every rank says of itself when a World starts: a few dozen bytes, read without hwloc.
struct RankPlace {
  std::string host;          ///< host_identity()
  int numa_node = -1;        ///< the only one its CPUs belong to; -1: several, or unknown
  std::vector<int> cpus;     ///< of its affinity mask
  double quota_cores = 0;    ///< of its cgroup; 0: no limit
  std::string gpu{};         ///< PCI address of the one it uses; empty: none
  std::string interfaces{};  ///< SINEW_INTERFACE
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// `gpu`: as the accelerator's own library writes its PCI address.
SINEW_API RankPlace place_of_this_process(const Config& config, const std::string& gpu = {});

SINEW_API Bytes to_bytes(const RankPlace& place);
/// Errors: Error{InvalidArgument} saying what is wrong with the bytes.
SINEW_API RankPlace rank_place_from_bytes(const Bytes& bytes);

}  // namespace sinew
