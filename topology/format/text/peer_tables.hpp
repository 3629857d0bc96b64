#pragma once

#include <string>
#include <vector>

#include <sinew/topology/machine.hpp>

namespace sinew {

/// Who may use whose memory, by what, and a table of it as lines, the row's GPU that of the other in the column; the
/// last line says what the words mean.
struct PeerTable {
  std::string by;  ///< "read, write, NVLink, atomics"
  std::vector<std::string> lines;
};

/// As `nvidia-smi topo -p2p` shows Machine::gpu_peers, but tables that would be equal are one. None where no pair is
/// known of.
std::vector<PeerTable> peer_tables(const Machine& machine);

}  // namespace sinew
