#pragma once

#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/device_links.hpp>

namespace sinew {

/// The links that join the devices of a group of ranks. Each rank has one device. Where devices or hosts differ, the
/// least rate counts, since collectives wait for the slowest.
/// Units: as DeviceLinks.
struct DeviceGroup {
  int ranks = 1;
  int hosts = 1;
  int most_on_host = 1;
  int fewest_on_host = 1;
  int compute_capability = 0;                 ///< 0: unknown for some device
  DevicePath path = DevicePath::Unknown;      ///< the farthest between two devices of one host
  bool has_nvswitch = false;                  ///< NVSwitches join all devices of each host
  double device_bytes_per_s = 0;              ///< from a device to the others of its host; 0: it has none
  DevicePath nic_path = DevicePath::Unknown;  ///< the farthest from a device to its NIC
  double nics = 0;                            ///< of a host
  double host_bytes_per_s = 0;                ///< from a host to the others; 0: there is one host
  double nic_bytes_per_s = 0;                 ///< from a device to other hosts by its own NICs; 0: there is one host
  Seconds nic_latency_s = 0;
  bool nic_keeps_order = true;
  bool is_assumed = false;  ///< true: some rate is unknown, and a usual one stands for it

  friend bool operator==(const DeviceGroup&, const DeviceGroup&) = default;
};

/// The group of these devices, by rank. Rates that are unknown are those of PCI Express 4.0 with 16 lanes and of a NIC
/// of 100 Gbit/s.
/// Precondition: there is a device.
SINEW_API DeviceGroup device_group(std::span<const DeviceLinks> devices);

}  // namespace sinew
