#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <sinew/topology/catalog/machine_rates.hpp>

namespace sinew {
namespace {

/// Of all NVLinks and XGMI links together; 0: unknown.
double gpu_link_rate(const Machine& machine, std::string_view gpu) {
  double sum = 0;
  for (const Link& link : machine.links) {
    const std::string& other = link.from == gpu ? link.to : link.from;
    const bool joins_gpus = other.starts_with("gpu:") || other.starts_with("nvswitch:");
    const bool is_gpu_link = link.kind == LinkKind::NvLink || link.kind == LinkKind::Xgmi;
    if (is_gpu_link && (link.from == gpu || link.to == gpu) && joins_gpus) sum += link.bytes_per_s.value.value_or(0);
  }
  return sum;
}

double pci_rate(const Machine& machine, const std::string& address) {
  for (const Link& link : machine.links) {
    if (link.kind == LinkKind::Pci && link.from == "pci:" + address) return link.bytes_per_s.value.value_or(0);
  }
  return 0;
}

double memory_rate(const Machine& machine) {
  double sum = 0;
  for (const Link& link : machine.links) {
    if (link.kind == LinkKind::Memory) sum += link.bytes_per_s.value.value_or(0);
  }
  return sum;
}

/// Of the slowest.
double nic_rate(const Machine& machine, std::span<const int> nics) {
  double slowest = 0;
  for (const int n : nics) {
    const double rate = machine.nics[static_cast<std::size_t>(n)].bytes_per_s.value.value_or(0);
    if (rate > 0) slowest = slowest > 0 ? std::min(slowest, rate) : rate;
  }
  return slowest;
}

const HostModel& most_like(const Machine& machine) {
  const auto has = [](std::string_view text, std::string_view word) { return text.find(word) != text.npos; };
  if (machine.gpus.empty()) {
    const bool is_epyc = !machine.packages.empty() && has(machine.packages.front().model, "EPYC");
    return host_model(is_epyc ? "epyc-2s" : "xeon-2s");
  }
  const Gpu& gpu = machine.gpus.front();
  if (gpu.nvlink_generation == 3) return host_model("dgx-a100");
  if (gpu.nvlink_generation == 5) return host_model("dgx-b200");
  return host_model(has(gpu.name, "H200") ? "dgx-h200" : "dgx-h100");
}

}  // namespace

HostModel rates_of(const Machine& machine, std::span<const int> nics, std::vector<std::string>& assumed) {
  HostModel model = most_like(machine);
  const auto take = [&](LinkRate& rate, double found, std::string_view what) {
    if (found > 0) {
      rate.bytes_per_s = found;
    } else {
      assumed.push_back(fmt::format("{}: {:.1f} GB/s each way, as a {} has", what, rate.bytes_per_s / 1e9, model.name));
    }
  };
  if (machine.gpus.empty()) {
    take(model.rank, 0, "between sockets");
    take(model.memory, memory_rate(machine), "memory of a host");
    model.reduce_bytes_per_s = model.memory.bytes_per_s / 2 / 3;
    model.copy_bytes_per_s = model.memory.bytes_per_s / 2 / 2;
  } else {
    const double gpu_links = gpu_link_rate(machine, "gpu:0");
    take(model.rank, gpu_links > 0 ? gpu_links : pci_rate(machine, machine.gpus.front().pci), "between GPUs");
    assumed.push_back(fmt::format("memory of a GPU: as that of a {}", model.name));
  }
  const std::string beside = nics.empty() ? "" : machine.nics[static_cast<std::size_t>(nics.front())].pci;
  take(model.pci, pci_rate(machine, beside), "PCI Express of a NIC");
  take(model.nic, nic_rate(machine, nics), "a NIC");
  return model;
}

}  // namespace sinew
