#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/host/cgroups.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/discover/host_identity.hpp>
#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/nvml_gpus.hpp>
#include <sinew/topology/discover/processors.hpp>
#include <sinew/topology/discover/rdma_access.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHere = "/";

/// What the machine is called. `root`: "/" for this one.
void add_names(const Config& config, const fs::path& root, Machine& machine) {
  if (root == kHere) {
    machine.identity = host_identity(config);
    machine.host_name = host_name();
    utsname system{};
    if (uname(&system) == 0) {
      machine.system = fmt::format("{} {}", system.sysname, system.release);
      machine.architecture = system.machine;
    }
    return;
  }
  const fs::path kernel = root / "proc" / "sys" / "kernel";
  machine.host_name = read_line(kernel / "hostname").value_or("unknown");
  machine.identity = "recorded:" + machine.host_name;
  machine.system =
      fmt::format("{} {}", read_line(kernel / "ostype").value_or(""), read_line(kernel / "osrelease").value_or(""));
  machine.architecture = read_line(kernel / "arch").value_or("");
}

/// The gaps that hold on any machine of its kind, beside those the readers noticed themselves.
void add_known_gaps(const fs::path& root, Machine& machine) {
  std::error_code error;
  if (!fs::exists(root / "sys" / "bus" / "pci", error)) {
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

Machine discover(const Config& config, const fs::path& root) {
  Machine machine;
  add_names(config, root, machine);
  {
    const ProcessLock lock(OfProcess::Topology);
    read_processors(root, machine);
  }
  const bool here = root == kHere;
  machine.usable_cores = here ? usable_cores() : static_cast<int>(machine.cores.size());
  if (here) machine.cpu_quota = Cgroups(root).cpu();
  machine.nics =
      here ? read_network_interfaces(machine.unseen) : read_recorded_interfaces(root / "sys", machine.unseen);
  add_sysfs(root / "sys", machine.nics);
  read_rdma_access(root, machine);
  read_nvml(machine);
  add_network_links(machine);
  add_known_gaps(root, machine);
  return machine;
}

Machine discover(const Config& config) { return discover(config, kHere); }

Machine discover() { return discover(Config::from_environment()); }

}  // namespace sinew
