#include <sys/utsname.h>

#include <filesystem>
#include <mutex>

#include <fmt/format.h>

#include <sinew/core/cpu.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/host_identity.hpp>
#include <sinew/topology/network_interfaces.hpp>
#include <sinew/topology/processors.hpp>

namespace sinew {
namespace {

void add_network_links(Machine& machine) {
  for (const Nic& nic : machine.nics) {
    if (nic.loopback) continue;
    machine.links.push_back({LinkKind::Network, "nic:" + nic.name, "network", nic.bytes_per_s,
                             Figure::unknown("depends on the peer; not measured")});
  }
}

/// The gaps that hold on any machine of its kind, beside those the readers noticed themselves.
void add_known_gaps(Machine& machine) {
  std::error_code error;
  if (!std::filesystem::exists("/sys/bus/pci", error)) {
    machine.unseen.push_back({"PCI devices", "/sys/bus/pci is not there: no PCI bus, or /sys is not mounted"});
  }
  if (machine.gpus.size() > 1) {
    machine.unseen.push_back({"links between GPUs", "PCI shows them only through its bridges; NVLink is not read"});
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
  add_network_links(machine);
  add_known_gaps(machine);
  return machine;
}

Machine discover() { return discover(Config::from_environment()); }

}  // namespace sinew
