#pragma once

#include <string>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/topology/cluster/rank_place.hpp>

#include "peer_memory.hpp"

namespace sinew::doctor {

/// A variable of a rank's environment.
struct Setting {
  std::string name;
  std::string value;
};

/// What every rank says of itself.
struct RankRecord {
  std::string version;  ///< of sinew; every version of this record begins with it
  std::string build;    ///< of its libraries: what modules are compared by
  RankPlace place;
  std::string host_name;
  PeerMemory memory;
  std::vector<Setting> settings;  ///< all SINEW_* variables, in the order of describe()
};

RankRecord record_of_this_rank(const Config& config);
Bytes to_bytes(const RankRecord& record);
/// Reads a record. Only the version is filled in if it is not this version.
/// Errors: Error{Mismatch} where the bytes are no record.
RankRecord rank_record_from(const Bytes& bytes);

}  // namespace sinew::doctor
