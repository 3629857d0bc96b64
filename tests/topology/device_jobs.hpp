#pragma once

#include <string>
#include <vector>

#include <sinew/core/transport/device_links.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/devices/device_group.hpp>
#include <sinew/topology/devices/links_of_gpu.hpp>

namespace sinew::test {

/// The devices of a job on equal hosts, by rank: the first `gpus` of each.
inline std::vector<DeviceLinks> devices_on(const Machine& machine, int hosts, int gpus) {
  const std::vector<int> nics = nics_for_ranks(machine);
  std::vector<DeviceLinks> devices;
  for (int host = 0; host < hosts; ++host) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      devices.push_back(links_of_gpu(machine, gpu, nics));
      devices.back().host = host;
    }
  }
  return devices;
}

/// The devices of hosts of a machine by name or file.
inline DeviceGroup group_on(const std::string& machine, int hosts, int gpus = 8) {
  return device_group(devices_on(described_machine(machine), hosts, gpus));
}

}  // namespace sinew::test
