#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/device_links.hpp>

namespace sinew {
namespace {

/// A host has fewer devices than this.
constexpr std::uint32_t kMostDevices = 1024;

DevicePath path_in(WireReader& reader) {
  const auto path = reader.value<DevicePath>();
  if (path > DevicePath::Unknown) {
    throw Error(Code::Mismatch, fmt::format("links of a device: path {}: expected {} at most", static_cast<int>(path),
                                            static_cast<int>(DevicePath::Unknown)));
  }
  return path;
}

std::string kind_of(const DeviceLinks& links) {
  std::string text = links.model;
  if (text.empty() && links.compute_capability > 0)
    text =
        fmt::format("a GPU of compute capability {}.{}", links.compute_capability / 10, links.compute_capability % 10);
  if (text.empty()) text = "a GPU";
  if (links.nvlinks > 0) {
    text += fmt::format(", {} NVLinks {}{}", links.nvlinks, links.nvlink_generation,
                        links.has_nvswitch ? " by NVSwitch" : "");
  } else {
    DevicePath farthest = DevicePath::NvLink;
    for (std::size_t p = 0; p < links.peers.size(); ++p) {
      if (static_cast<int>(p) != links.number) farthest = std::max(farthest, links.peers[p].path);
    }
    if (farthest != DevicePath::NvLink) text += fmt::format(", {}", name_of(farthest));
  }
  if (links.nic_bytes_per_s > 0) text += fmt::format(", NIC {:.1f} GB/s", links.nic_bytes_per_s / 1e9);
  return text;
}

/// A number of links, or a place among devices, or a generation.
int number_in(WireReader& reader, std::string_view what, int least = 0) {
  constexpr int kMost = 1 << 16;
  const auto number = reader.value<int>();
  if (number < least || number > kMost) {
    throw Error(Code::Mismatch, fmt::format("links of a device: {} {}: expected {} to {}", what, number, least, kMost));
  }
  return number;
}

/// A rate, a number of NICs or a latency.
double amount_in(WireReader& reader, std::string_view what) {
  const auto amount = reader.value<double>();
  if (!std::isfinite(amount) || amount < 0)
    throw Error(Code::Mismatch, fmt::format("links of a device: {} {}: expected 0 at least", what, amount));
  return amount;
}

}  // namespace

std::string_view name_of(DevicePath path) noexcept {
  switch (path) {
    case DevicePath::NvLink: return "NVLink";
    case DevicePath::PciSwitch: return "PCI Express switch";
    case DevicePath::HostBridge: return "host bridge";
    case DevicePath::Sockets: return "links between NUMA nodes";
    case DevicePath::Unknown: return "unknown";
  }
  return "?";
}

std::string device_kind(std::span<const DeviceLinks> devices) {
  std::set<std::string> kinds;
  for (const DeviceLinks& links : devices) kinds.insert(kind_of(links));
  return fmt::format("{}", fmt::join(kinds, " + "));
}

Bytes to_bytes(const DeviceLinks& links) {
  WireWriter writer;
  writer.value(links.host).text(links.model).value(links.compute_capability).value(links.number);
  writer.value(links.nvlinks).value(links.nvlink_generation).value<std::uint8_t>(links.has_nvswitch ? 1 : 0);
  writer.value(links.nvlink_bytes_per_s).value(links.pci_bytes_per_s);
  writer.value(static_cast<std::uint32_t>(links.peers.size()));
  for (const DeviceLinks::Peer& peer : links.peers) writer.value(peer.path).value(peer.nvlinks);
  writer.text(links.nic).value(links.nic_path).value(links.nics).value(links.nic_bytes_per_s);
  writer.value(links.nic_latency_s).value<std::uint8_t>(links.nic_keeps_order ? 1 : 0);
  return writer.take();
}

DeviceLinks device_links_from_bytes(const Bytes& bytes) {
  WireReader reader(bytes);
  DeviceLinks links;
  links.host = reader.value<int>();
  links.model = reader.text();
  links.compute_capability = number_in(reader, "compute capability");
  links.number = number_in(reader, "number of the device", -1);
  links.nvlinks = number_in(reader, "number of NVLinks");
  links.nvlink_generation = number_in(reader, "generation of NVLinks");
  links.has_nvswitch = reader.value<std::uint8_t>() != 0;
  links.nvlink_bytes_per_s = amount_in(reader, "rate of NVLinks");
  links.pci_bytes_per_s = amount_in(reader, "rate of PCI Express");
  const auto devices = reader.value<std::uint32_t>();
  if (devices > kMostDevices)
    throw Error(Code::Mismatch,
                fmt::format("links of a device: {} devices: expected {} at most", devices, kMostDevices));
  for (std::uint32_t d = 0; d < devices; ++d) {
    const DevicePath path = path_in(reader);
    links.peers.push_back({path, number_in(reader, "number of NVLinks to a device")});
  }
  links.nic = reader.text();
  links.nic_path = path_in(reader);
  links.nics = amount_in(reader, "number of NICs");
  links.nic_bytes_per_s = amount_in(reader, "rate of NICs");
  links.nic_latency_s = amount_in(reader, "latency of NICs");
  links.nic_keeps_order = reader.value<std::uint8_t>() != 0;
  if (reader.left() > 0)
    throw Error(Code::Mismatch, fmt::format("links of a device: {} bytes too many", reader.left()));
  return links;
}

}  // namespace sinew
