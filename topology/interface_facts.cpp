#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include <sinew/topology/network_interfaces.hpp>
#include <sinew/topology/sysfs.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

constexpr double kBitsPerByte = 8;

std::optional<double> leading_number(const std::optional<std::string>& text) {
  double value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

int int_or(const std::optional<std::string>& text, int otherwise) {
  return static_cast<int>(leading_number(text).value_or(otherwise));
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// A bond, a team or a VLAN has no device of its own and still a rate that means something.
bool stands_for_wires(const Nic& nic) {
  return nic.driver == "bonding" || nic.driver == "team" || nic.driver.starts_with("802.1Q");
}

Figure rate_of(const Nic& nic, const fs::path& folder, bool has_device) {
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

/// "mlx5_0:1" of an interface whose device offers RDMA.
std::string rdma_port_of(const fs::path& sys, const fs::path& folder) {
  const std::vector<std::string> devices = entries(folder / "device" / "infiniband");
  if (devices.empty()) return {};
  const fs::path ports = sys / "class" / "infiniband" / devices.front() / "ports";
  const int port = int_or(read_line(folder / "dev_port"), 0) + 1;
  std::error_code error;
  const bool own = fs::exists(ports / std::to_string(port), error);
  return fmt::format("{}:{}", devices.front(), own ? port : 1);
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
  nic.bytes_per_s = rate_of(nic, folder, has_device);
  if (!has_device) return;
  nic.rdma_port = rdma_port_of(sys, folder);
  if (!nic.rdma_port.empty() && nic.kind == NicKind::Ethernet) nic.kind = NicKind::RoCE;
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

std::vector<Nic> read_rdma_ports(const fs::path& sys) {
  std::vector<Nic> nics;
  const fs::path root = sys / "class" / "infiniband";
  for (const std::string& device : entries(root)) {
    for (const std::string& port : entries(root / device / "ports")) {
      const fs::path folder = root / device / "ports" / port;
      Nic nic;
      nic.name = nic.rdma_port = fmt::format("{}:{}", device, port);
      nic.kind = read_line(folder / "link_layer") == "Ethernet" ? NicKind::RoCE : NicKind::InfiniBand;
      const std::string state = read_line(folder / "state").value_or("");
      nic.up = nic.running = state.find("ACTIVE") != std::string::npos;
      const fs::path file = folder / "rate";
      const auto gigabits = leading_number(read_line(file));
      nic.bytes_per_s = gigabits && *gigabits > 0 ? Figure::of(*gigabits * 1e9 / kBitsPerByte, file.string())
                                                  : Figure::unknown(file.string() + " cannot be read");
      nic.numa_node = int_or(read_line(root / device / "device" / "numa_node"), -1);
      nic.pci = link_name(root / device / "device");
      nics.push_back(std::move(nic));
    }
  }
  return nics;
}

}  // namespace sinew
