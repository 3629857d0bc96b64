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
    case PciKind::Switch: return "switch";
  }
  return {};
}

std::string_view name_of(MigMode mode) noexcept {
  switch (mode) {
    case MigMode::Unknown: return "unknown";
    case MigMode::Off: return "off";
    case MigMode::On: return "on";
  }
  return {};
}

std::string_view name_of(PeerStatus status) noexcept {
  switch (status) {
    case PeerStatus::Unknown: return "unknown";
    case PeerStatus::Ok: return "ok";
    case PeerStatus::ChipsetNotSupported: return "chipset_not_supported";
    case PeerStatus::GpuNotSupported: return "gpu_not_supported";
    case PeerStatus::TopologyNotSupported: return "topology_not_supported";
    case PeerStatus::Disabled: return "disabled";
    case PeerStatus::NotSupported: return "not_supported";
  }
  return {};
}

std::string_view name_of(RdmaState state) noexcept {
  switch (state) {
    case RdmaState::Unknown: return "unknown";
    case RdmaState::Down: return "down";
    case RdmaState::Init: return "init";
    case RdmaState::Armed: return "armed";
    case RdmaState::Active: return "active";
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
    case LinkKind::NvLink: return "nvlink";
    case LinkKind::Xgmi: return "xgmi";
  }
  return {};
}

}  // namespace sinew
