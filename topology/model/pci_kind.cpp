#include <sinew/topology/model/pci_kind.hpp>

namespace sinew {
namespace {

constexpr unsigned kClassStorage = 0x01;
constexpr unsigned kClassNetwork = 0x02;
constexpr unsigned kClassDisplay = 0x03;
constexpr unsigned kClassAccelerator = 0x12;
constexpr unsigned kClass3dController = 0x0302;
constexpr unsigned kClassPciBridge = 0x0604;
constexpr std::uint16_t kNvidia = 0x10de;
constexpr std::uint16_t kAmd = 0x1002;

}  // namespace

PciKind pci_kind_of(unsigned class_id) {
  if (class_id == kClassPciBridge) return PciKind::Bridge;
  switch (class_id >> 8) {
    case kClassNetwork: return PciKind::Network;
    case kClassDisplay: return PciKind::Display;
    case kClassAccelerator: return PciKind::Accelerator;
    case kClassStorage: return PciKind::Storage;
    default: return PciKind::Other;
  }
}

bool is_gpu(const PciDevice& device, unsigned class_id) {
  return class_id == kClass3dController || device.kind == PciKind::Accelerator ||
         (device.kind == PciKind::Display && (device.vendor_id == kNvidia || device.vendor_id == kAmd));
}

}  // namespace sinew
