#include <string>

#include <fmt/format.h>

#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

/// The file says "4: ACTIVE"; numbers as in the InfiniBand architecture's PortInfo.PortState.
RdmaState state_of(const fs::path& port) {
  switch (int_or(read_line(port / "state"), 0)) {
    case 1: return RdmaState::Down;
    case 2: return RdmaState::Init;
    case 3: return RdmaState::Armed;
    case 4: return RdmaState::Active;
    default: return RdmaState::Unknown;
  }
}

NicKind kind_of(const fs::path& port) {
  const std::string layer = read_line(port / "link_layer").value_or("InfiniBand");  // kernels before 3.1 knew no other
  return layer == "InfiniBand" ? NicKind::InfiniBand : layer == "Ethernet" ? NicKind::RoCE : NicKind::Other;
}

/// The first entry of the table; all zero: the subnet manager has not given one yet.
std::string gid_of(const fs::path& port) {
  const std::string gid = read_line(port / "gids" / "0").value_or("");
  return gid.find_first_not_of("0:") == std::string::npos ? "" : gid;
}

Figure rate_of_port(const fs::path& port) {
  constexpr double kBytesPerGigabit = 1e9 / 8;
  const fs::path file = port / "rate";
  const auto gigabits = leading_number(read_line(file));
  if (!gigabits) return Figure::unknown(file.string() + " cannot be read");
  if (*gigabits <= 0) return Figure::unknown(fmt::format("{} says {}", file.string(), *gigabits));
  return Figure::of(*gigabits * kBytesPerGigabit, file.string());
}

}  // namespace

Nic read_rdma_port(const fs::path& sys, const std::string& device, int number) {
  const fs::path folder = sys / "class" / "infiniband" / device;
  const fs::path port = folder / "ports" / std::to_string(number);
  Nic nic;
  nic.name = fmt::format("{}:{}", device, number);
  nic.kind = kind_of(port);
  nic.rdma = {device, number, state_of(port), gid_of(port)};
  nic.up = nic.rdma.state != RdmaState::Down && nic.rdma.state != RdmaState::Unknown;
  nic.running = nic.rdma.state == RdmaState::Active;
  nic.driver = link_name(folder / "device" / "driver");
  nic.bytes_per_s = rate_of_port(port);
  nic.numa_node = int_or(read_line(folder / "device" / "numa_node"), -1);
  nic.pci = link_name(folder / "device");
  return nic;
}

std::vector<Nic> read_rdma_ports(const fs::path& sys) {
  std::vector<Nic> nics;
  const fs::path root = sys / "class" / "infiniband";
  for (const std::string& device : entries(root)) {
    for (const std::string& port : entries(root / device / "ports")) {
      if (const int number = int_or(port, 0); number > 0) nics.push_back(read_rdma_port(sys, device, number));
    }
  }
  return nics;
}

}  // namespace sinew
