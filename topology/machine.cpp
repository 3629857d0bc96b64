#include <sinew/topology/machine.hpp>

namespace sinew {

std::string_view name_of(PciKind kind) noexcept {
  switch (kind) {
    case PciKind::Bridge: return "bridge";
    case PciKind::Network: return "network";
    case PciKind::Display: return "display";
    case PciKind::Accelerator: return "accelerator";
    case PciKind::Storage: return "storage";
    case PciKind::Other: return "other";
  }
  return {};
}

std::string_view name_of(NicKind kind) noexcept {
  switch (kind) {
    case NicKind::Ethernet: return "Ethernet";
    case NicKind::InfiniBand: return "InfiniBand";
    case NicKind::RoCE: return "RoCE";
    case NicKind::Other: return "other";
  }
  return {};
}

std::string_view name_of(LinkKind kind) noexcept {
  switch (kind) {
    case LinkKind::Memory: return "memory";
    case LinkKind::Pci: return "pci";
    case LinkKind::Network: return "network";
  }
  return {};
}

}  // namespace sinew
