#include <string>

#include <fmt/format.h>

#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

constexpr double kBitsPerByte = 8;

/// A bond, a team or a VLAN has no device of its own and still a rate that means something.
bool stands_for_wires(const Nic& nic) {
  return nic.driver == "bonding" || nic.driver == "team" || nic.driver.starts_with("802.1Q");
}

Figure rate_of_interface(const Nic& nic, const fs::path& folder, bool has_device) {
  if (nic.loopback) return Figure::unknown("loopback is no wire");
  if (!has_device && !stands_for_wires(nic)) {
    const std::string_view driver = nic.driver.empty() ? std::string_view("a virtual interface") : nic.driver;
    return Figure::unknown(fmt::format("{} is no wire, it moves as fast as what carries it", driver));
  }
  const fs::path file = folder / "speed";
  const auto megabits = leading_number(read_line(file));
  if (!megabits)
    return Figure::unknown(fmt::format("{} cannot be read: no link, or the driver names no rate", file.string()));
  if (*megabits <= 0 || *megabits >= 4294967295.0) {
    return Figure::unknown(fmt::format("{} says {}: the driver names no rate", file.string(), *megabits));
  }
  return Figure::of(*megabits * 1e6 / kBitsPerByte, file.string());
}

/// The RDMA port of an interface whose device offers one.
void add_rdma_port(Nic& nic, const fs::path& sys, const fs::path& folder) {
  const std::vector<std::string> devices = entries(folder / "device" / "infiniband");
  if (devices.empty()) return;
  const fs::path ports = sys / "class" / "infiniband" / devices.front() / "ports";
  const int port = int_or(read_line(folder / "dev_port"), 0) + 1;
  std::error_code error;
  const bool own = fs::exists(ports / std::to_string(port), error);
  Nic found = read_rdma_port(sys, devices.front(), own ? port : 1);
  nic.rdma = std::move(found.rdma);
  if (nic.kind == NicKind::Ethernet) nic.kind = NicKind::RoCE;
  if (!nic.bytes_per_s.value && found.bytes_per_s.value) nic.bytes_per_s = std::move(found.bytes_per_s);
}

}  // namespace

void add_sysfs_facts(Nic& nic, const fs::path& sys) {
  const fs::path folder = sys / "class" / "net" / nic.name;
  const auto hardware_address = read_line(folder / "address");
  if (!hardware_address || (!nic.hardware_address.empty() && *hardware_address != nic.hardware_address)) {
    nic.bytes_per_s = Figure::unknown(fmt::format(
        "{} {}", folder.string(),
        hardware_address ? "belongs to another network namespace" : "is not there: /sys is not of this namespace"));
    return;
  }
  std::error_code error;
  const bool has_device = fs::exists(folder / "device", error);
  nic.mtu_bytes = static_cast<std::uint32_t>(int_or(read_line(folder / "mtu"), 0));
  nic.bytes_per_s = rate_of_interface(nic, folder, has_device);
  if (!has_device) return;
  add_rdma_port(nic, sys, folder);
  nic.numa_node = int_or(read_line(folder / "device" / "numa_node"), -1);
  const fs::path device = fs::canonical(folder / "device", error);
  for (const fs::path& step : {device, device.parent_path()}) {  // a virtio interface lies one below its PCI device
    if (link_name(step / "subsystem") == "pci") {
      nic.pci = step.filename().string();
      nic.numa_node = int_or(read_line(step / "numa_node"), -1);
      break;
    }
  }
}

}  // namespace sinew
