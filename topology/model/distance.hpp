#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// What lies between two parts, from near to far, as `nvidia-smi topo -m` names it (Xgmi: as `rocm-smi --showtopo`).
enum class Between : std::uint8_t {
  Nothing,  ///< X: they are one
  NvLink,   ///< NV#: so many NVLinks
  Xgmi,     ///< XGMI#: so many of AMD's links
  Pix,      ///< PIX: at most one PCI switch
  Pxb,      ///< PXB: several PCI switches, one above the other or joined beside the tree, no host bridge
  Phb,      ///< PHB: a host bridge; also where the source names no host bridges, within one NUMA node
  Node,     ///< NODE: what joins host bridges of one NUMA node
  Sys,      ///< SYS: what joins NUMA nodes
  Unknown,  ///< ?: the machine does not say where one of them is
};

struct Distance {
  Between between = Between::Unknown;
  int links = 0;  ///< side by side; of Between::NvLink and Xgmi
  friend bool operator==(const Distance&, const Distance&) = default;
};

/// "NV18", "XGMI1", "PIX", "X", "?".
SINEW_API std::string to_text(const Distance& distance);

/// Between two parts by the names that Link uses: "gpu:0", "nic:mlx5_0:1", "numa:1", "pci:0000:3b:00.0". A NUMA node is
/// at its host bridges: PHB to what hangs below them. On a machine of one NUMA node everything is on it. Errors:
/// Error{InvalidArgument} if the machine has no such part.
SINEW_API Distance distance(const Machine& machine, std::string_view from, std::string_view to);

}  // namespace sinew
