#pragma once

namespace sinew {

/// What a PCI Express link of so many transfers per second and lanes moves each way, after its line code (8b/10b up to
/// 5 GT/s, 128b/130b up to 32, FLITs of 242 in 256 bytes above).
constexpr double pci_bytes_per_s(double transfers_per_s, int lanes) {
  const double code = transfers_per_s <= 5e9 ? 8.0 / 10 : transfers_per_s <= 32e9 ? 128.0 / 130 : 242.0 / 256;
  return transfers_per_s * code * lanes / 8;
}

}  // namespace sinew
