#include <map>
#include <set>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/topology/model/consistency.hpp>
#include <sinew/topology/model/field_error.hpp>

namespace sinew {
namespace {

void check_cores(const Machine& machine, const std::vector<int>& cores, const std::string& path) {
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (cores[i] >= 0 && static_cast<std::size_t>(cores[i]) < machine.cores.size()) continue;
    throw FieldError(
        fmt::format("{}.cores[{}]", path, i),
        fmt::format("expected an index of \"cores\", which has {}, found {}", machine.cores.size(), cores[i]));
  }
}

template <class T>
void check_cores_of(const Machine& machine, const std::vector<T>& parts, std::string_view name) {
  for (std::size_t i = 0; i < parts.size(); ++i) check_cores(machine, parts[i].cores, fmt::format("{}[{}]", name, i));
}

void check_pci(const std::vector<PciDevice>& devices) {
  std::map<std::string_view, const PciDevice*> by_address;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!by_address.emplace(devices[i].address, &devices[i]).second) {
      throw FieldError(fmt::format("pci_devices[{}].address", i),
                       fmt::format("\"{}\" is listed twice", devices[i].address));
    }
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto complain = [&](std::string_view problem) {
      throw FieldError(fmt::format("pci_devices[{}].parent", i), problem);
    };
    std::size_t steps = 0;
    for (const PciDevice* d = &devices[i]; !d->parent.empty();) {
      const auto above = by_address.find(d->parent);
      if (above == by_address.end()) {
        complain(fmt::format("expected the address of a device of \"pci_devices\", found \"{}\"", d->parent));
      }
      if (++steps > devices.size()) complain(fmt::format("the bridges above {} go round", devices[i].address));
      d = above->second;
    }
  }
}

void check_peers(const Machine& machine) {
  std::set<std::pair<int, int>> pairs;
  for (std::size_t i = 0; i < machine.gpu_peers.size(); ++i) {
    const GpuPeer& peer = machine.gpu_peers[i];
    if (peer.from == peer.to) {
      throw FieldError(fmt::format("gpu_peers[{}].to", i),
                       fmt::format("expected another GPU than gpu_peers[{}].from, found {}", i, peer.to));
    }
    if (!pairs.emplace(peer.from, peer.to).second) {
      throw FieldError(fmt::format("gpu_peers[{}]", i),
                       fmt::format("GPU {} to {} is listed twice", peer.from, peer.to));
    }
    for (const auto& [field, gpu] : {std::pair("from", peer.from), std::pair("to", peer.to)}) {
      if (gpu >= 0 && static_cast<std::size_t>(gpu) < machine.gpus.size()) continue;
      throw FieldError(fmt::format("gpu_peers[{}].{}", i, field),
                       fmt::format("expected an index of \"gpus\", which has {}, found {}", machine.gpus.size(), gpu));
    }
  }
}

/// Of "gpu:3": fewer than four GPUs make it one that is not there.
bool is_absent(std::string_view part, std::string_view kind, std::size_t count) {
  if (!part.starts_with(kind)) return false;
  part.remove_prefix(kind.size());
  return parse_number<std::size_t>(part).value_or(count) >= count;
}

void check_links(const Machine& machine) {
  constexpr int kWidest = 1024;
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    const Link& link = machine.links[i];
    if (link.width < 1 || link.width > kWidest) {
      throw FieldError(fmt::format("links[{}].width", i),
                       fmt::format("expected 1 to {}, found {}", kWidest, link.width));
    }
    for (const auto& [field, part] : {std::pair("from", &link.from), std::pair("to", &link.to)}) {
      if (is_absent(*part, "gpu:", machine.gpus.size()) || is_absent(*part, "nvswitch:", machine.nvswitches.size())) {
        throw FieldError(fmt::format("links[{}].{}", i, field),
                         fmt::format("expected one of {} GPUs and {} NVSwitches, found \"{}\"", machine.gpus.size(),
                                     machine.nvswitches.size(), *part));
      }
    }
  }
}

}  // namespace

void reject_inconsistent(const Machine& machine) {
  check_cores_of(machine, machine.packages, "packages");
  check_cores_of(machine, machine.numa_nodes, "numa_nodes");
  check_cores_of(machine, machine.caches, "caches");
  check_pci(machine.pci_devices);
  check_peers(machine);
  check_links(machine);
}

}  // namespace sinew
