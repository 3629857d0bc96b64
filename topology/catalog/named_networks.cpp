#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_networks.hpp>
#include <sinew/topology/model/pci_rate.hpp>

namespace sinew {
namespace {

/// 10^9 bits per second.
constexpr double gbit(double n) { return n * 1e9 / 8; }

constexpr double kPci4 = pci_bytes_per_s(16e9, 16), kPci5 = pci_bytes_per_s(32e9, 16);

// Rates are those of the datasheets; latencies are not in them: of the order that is commonly measured (0.5 us into and
// out of NVSwitch, 1.5 us between InfiniBand NICs on one switch, 0.3 us for each further switch). A sum reads two and
// writes one, a copy reads one and writes one: a third and half of the memory's rate.
constexpr HostModel nvidia(std::string_view name, double nvlink, double pci, double nic_gbit, double hbm) {
  return {.name = name,
          .ranks = 8,
          .nics = 8,
          .rank = {nvlink / 2, 0.5e-6},  // datasheets count both ways
          .memory = {},
          .pci = {pci, 0.4e-6},
          .nic = {gbit(nic_gbit), 0.75e-6},
          .leaf = {0, 0.3e-6},
          .reduce_bytes_per_s = hbm / 3,
          .copy_bytes_per_s = hbm / 2};
}

/// A rank per socket, and a port at each; processors, memory and ports are those of named_machine(). `between`: the
/// socket's links to the other, one way; `memory`: of both sockets.
constexpr HostModel two_sockets(std::string_view name, double between, double memory) {
  return {.name = name,
          .ranks = 2,
          .nics = 2,
          .rank = {between, 0.25e-6},
          .memory = {memory, 0},
          .pci = {kPci4, 0.4e-6},
          .nic = {gbit(100), 0.75e-6},
          .leaf = {0, 0.3e-6},
          .reduce_bytes_per_s = memory / 2 / 3,
          .copy_bytes_per_s = memory / 2 / 2};
}

constexpr HostModel kModels[] = {
    // NVIDIA DGX A100 80GB datasheet, 2020: third-generation NVLink 600 GB/s, 8 ConnectX-6 at 200 Gbit/s, PCIe 4.0 x16;
    // A100 80GB datasheet: 2,039 GB/s.
    nvidia("dgx-a100", 600e9, kPci4, 200, 2039e9),
    // NVIDIA DGX H100 datasheet, 2023: NVLink 900 GB/s, 8 ConnectX-7 at 400 Gbit/s, PCIe 5.0 x16; H100 SXM5: 3.35 TB/s.
    nvidia("dgx-h100", 900e9, kPci5, 400, 3350e9),
    // NVIDIA DGX H200 datasheet, 2024: as H100 with 4.8 TB/s.
    nvidia("dgx-h200", 900e9, kPci5, 400, 4800e9),
    // NVIDIA DGX B200 datasheet, 2024: fifth-generation NVLink 1.8 TB/s. NICs and PCI Express are those of H100. Eight
    // B200 have 64 TB/s of memory.
    nvidia("dgx-b200", 1800e9, kPci5, 400, 8000e9),
    // AMD EPYC 9654 product page: 12 channels of DDR5-4800; EPYC 9004 series architecture overview: up to four xGMI
    // links of 16 lanes at 32 GT/s between two sockets. All four are taken; boards that need lanes for devices use
    // three.
    two_sockets("epyc-2s", 4 * 64e9, 2 * 460.8e9),
    // Intel ARK, Xeon Platinum 8480+: 8 channels of DDR5-4800, four UPI links at 16 GT/s, of two bytes of data each
    // time.
    two_sockets("xeon-2s", 4 * 32e9, 2 * 307.2e9)};

void check(const std::string& what, double number, double least) {
  if (number >= least && std::isfinite(number)) return;
  const std::string limit = std::isinf(number) ? "a finite number" : fmt::format("{} at least", least);
  throw Error(Code::InvalidArgument, fmt::format("{} {}: expected {}", what, number, limit));
}

Network joined(const HostModel& host, int hosts, NetworkForm form, double oversubscription, int hosts_per_leaf) {
  check("hosts", hosts, 1);
  check("hosts per leaf", hosts_per_leaf, 1);
  check("oversubscription", oversubscription, 1);
  if (constexpr int kMost = 1 << 20; hosts > kMost / host.ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("{} hosts of {} ranks: expected {} ranks at most", hosts, host.ranks, kMost));
  const double leaf_nics = form == NetworkForm::FatTree ? static_cast<double>(hosts_per_leaf) * host.nics : hosts;
  const LinkRate leaf{leaf_nics * host.nic.bytes_per_s / oversubscription, host.leaf.latency_s};
  return {.name = fmt::format("{}x{}", host.name, hosts),
          .form = form,
          .hosts = hosts,
          .ranks_per_host = host.ranks,
          .nics_per_host = host.nics,
          .hosts_per_leaf = hosts_per_leaf,
          .oversubscription = oversubscription,
          .rates = {host.rank, host.rank, host.memory, host.pci, host.pci, host.nic, host.nic, leaf, leaf},
          .reduce_bytes_per_s = host.reduce_bytes_per_s,
          .copy_bytes_per_s = host.copy_bytes_per_s};
}

}  // namespace

std::span<const HostModel> host_models() noexcept { return kModels; }

const HostModel& host_model(std::string_view name) {
  std::vector<std::string_view> known;
  for (const HostModel& model : kModels) {
    if (model.name == name) return model;
    known.push_back(model.name);
  }
  throw Error(Code::InvalidArgument, fmt::format("'{}': expected a machine, one of {}", name, fmt::join(known, ", ")));
}

Network one_switch(const HostModel& host, int hosts) { return joined(host, hosts, NetworkForm::OneSwitch, 1, 1); }

Network fat_tree(const HostModel& host, int hosts, int hosts_per_leaf, double oversubscription) {
  return joined(host, hosts, NetworkForm::FatTree, oversubscription, hosts_per_leaf);
}

Network rail_optimised(const HostModel& host, int hosts, double oversubscription) {
  return joined(host, hosts, NetworkForm::RailOptimised, oversubscription, 1);
}

}  // namespace sinew
