#pragma once

#include <string>
#include <string_view>

namespace sinew {

/// As the kernel writes it: "00000000:3B:00.0" -> "0000:3b:00.0"; empty if it is no PCI address.
std::string pci_address(std::string_view text);

}  // namespace sinew
