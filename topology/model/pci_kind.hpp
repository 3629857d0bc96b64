#pragma once

#include <sinew/topology/machine.hpp>

namespace sinew {

/// By the class of the PCI specification, base and sub class in 16 bits: 0x0302 is a 3D controller.
PciKind pci_kind_of(unsigned class_id);

/// A display that computes: a 3D controller, or a card of a maker of such; not the emulated screen of a virtual
/// machine.
bool is_gpu(const PciDevice& device, unsigned class_id);

}  // namespace sinew
