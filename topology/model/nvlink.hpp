#pragma once

#include <sinew/topology/machine.hpp>

namespace sinew {

/// What one NVLink moves each way, by NVIDIA's datasheets.
struct NvLinkRate {
  int generation = 0;      ///< 0: unknown
  double bytes_per_s = 0;  ///< 0: unknown
  const char* source = "";
  double payload_bytes_per_s =
      0;  ///< of this, data of users: NCCL's figure for a link, from its header topo.h; 0: unknown
};

/// Of generation 1 (P100) to 5 (B200).
NvLinkRate nvlink_of_generation(int generation);
/// Of a GPU by its compute capability times ten: 90 of an H100.
NvLinkRate nvlink_of_sm(int sm);

/// `links` NVLinks side by side between two parts.
Link nvlink(std::string from, std::string to, int links, const NvLinkRate& rate);

}  // namespace sinew
