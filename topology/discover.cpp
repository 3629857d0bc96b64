#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>

#include <sinew/core/cpu.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/host_identity.hpp>
#include <sinew/topology/network_interfaces.hpp>
#include <sinew/topology/nvml_gpus.hpp>
#include <sinew/topology/processors.hpp>

namespace sinew {
namespace {

/// The gaps that hold on any machine of its kind, beside those the readers noticed themselves.
void add_known_gaps(Machine& machine) {
  std::error_code error;
  if (!std::filesystem::exists("/sys/bus/pci", error)) {
    machine.unseen.push_back({"PCI devices", "/sys/bus/pci is not there: no PCI bus, or /sys is not mounted"});
  }
  constexpr std::uint16_t kMellanox = 0x15b3;  // all its adapters offer RDMA
  const auto offers_rdma = [](const PciDevice& d) { return d.kind == PciKind::Network && d.vendor_id == kMellanox; };
  const bool no_port = std::ranges::all_of(machine.nics, [](const Nic& nic) { return nic.rdma.device.empty(); });
  if (no_port && std::ranges::any_of(machine.pci_devices, offers_rdma)) {
    machine.unseen.push_back({"RDMA ports",
                              "there are adapters that have them, but /sys/class/infiniband lists none: "
                              "its drivers are not loaded, or this container is not shown them"});
  }
}

}  // namespace

Machine discover(const Config& config) {
  Machine machine;
  machine.identity = host_identity(config);
  machine.host_name = host_name();
  utsname system{};
  if (uname(&system) == 0) {
    machine.system = fmt::format("{} {}", system.sysname, system.release);
    machine.architecture = system.machine;
  }
  machine.usable_cores = usable_cores();
  {
    static std::mutex one_at_a_time;  // libudev, which hwloc asks, seeds a global without a lock
    const std::scoped_lock lock(one_at_a_time);
    read_processors(machine);
  }
  machine.nics = read_network_interfaces("/sys", machine.unseen);
  read_nvml(machine);
  add_network_links(machine);
  add_known_gaps(machine);
  return machine;
}

Machine discover() { return discover(Config::from_environment()); }

}  // namespace sinew
