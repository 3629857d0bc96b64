#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// The parts of a host between two of its devices, or between a device and a NIC, from near to far.
enum class DevicePath : std::uint8_t {
  NvLink,      ///< NVLinks, directly or through NVSwitches
  PciSwitch,   ///< PCI Express switches
  HostBridge,  ///< a host bridge, or several of one NUMA node
  Sockets,     ///< what joins NUMA nodes
  Unknown,
};
/// The name of a path, such as "NVLink" or "PCI Express switch".
SINEW_API std::string_view name_of(DevicePath path) noexcept;

/// The links of one rank's device: facts, which all ranks know of each other. Whatever is 0 or Unknown was not found.
/// Units: bytes per second of one direction, as far as they carry data of users. Line codes and headers are taken off.
struct DeviceLinks {
  /// The path from this device to another one of its host.
  struct Peer {
    DevicePath path = DevicePath::Unknown;
    int nvlinks = 0;  ///< that lead to this peer; through NVSwitches, all of them
    friend bool operator==(const Peer&, const Peer&) = default;
  };

  int host = 0;                   ///< equal for devices of one host
  std::string model;              ///< such as "NVIDIA H100 80GB HBM3"; empty: unknown
  int compute_capability = 0;     ///< ten times CUDA's number: 90 for 9.0
  int number = -1;                ///< of the device among those of its host; -1: unknown
  int nvlinks = 0;                ///< that are up
  int nvlink_generation = 0;      ///< 4: H100
  bool has_nvswitch = false;      ///< the NVLinks lead to NVSwitches
  double nvlink_bytes_per_s = 0;  ///< of all NVLinks of the device together
  double pci_bytes_per_s = 0;     ///< between the device and the root of its PCI tree
  std::vector<Peer> peers;        ///< the devices of the host by number; the own entry is Unknown
  std::string nic;                ///< name of the nearest NIC; empty: unknown
  DevicePath nic_path = DevicePath::Unknown;
  double nics = 0;              ///< NICs that are nearest to this device; of one for two devices each has a half
  double nic_bytes_per_s = 0;   ///< of these NICs, or of these parts of NICs, together
  Seconds nic_latency_s = 0;    ///< a message of one NIC to another one, with the work of both hosts for it
  bool nic_keeps_order = true;  ///< writes of up to 128 bytes arrive whole; LL128 of NCCL needs that

  friend bool operator==(const DeviceLinks&, const DeviceLinks&) = default;
};

/// Names the devices of a group and their links in one line. Times that were measured on devices hold for others of the
/// same text: "NVIDIA H100 80GB HBM3, 18 NVLinks 4 by NVSwitch, NIC 47.9 GB/s". Empty: there is no device.
SINEW_API std::string device_kind(std::span<const DeviceLinks> devices);

SINEW_API Bytes to_bytes(const DeviceLinks& links);
/// Errors: Error{Mismatch} for bytes that to_bytes() has not made.
SINEW_API DeviceLinks device_links_from_bytes(const Bytes& bytes);

}  // namespace sinew
