#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_dgx.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/model/machine_parts.hpp>

namespace sinew {
namespace {

using namespace machine_parts;

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kKiB = 1ull << 10;

/// One 100-Gbit/s port at each socket.
void add_ethernet(Machine& machine) {
  const Figure rate = Figure::of(12.5e9, "ConnectX-6 Dx datasheet: 100 Gbit/s Ethernet");
  constexpr double kPci4 = 16e9;
  constexpr std::uint16_t kConnectX6Dx = 0x101d;
  add_nic(machine, {"0000:17:00.0", "", 0, kPci4}, kConnectX6Dx,
          {.name = "eth0", .kind = NicKind::RoCE, .bytes_per_s = rate, .rdma = {"mlx5_0", 1}});
  add_nic(machine, {"0000:97:00.0", "", 1, kPci4}, kConnectX6Dx,
          {.name = "eth1", .kind = NicKind::RoCE, .bytes_per_s = rate, .rdma = {"mlx5_1", 1}});
}

/// Source: Intel's page of the Xeon Platinum 8480+ (56 cores, 105 MB L3, 8 channels of DDR5-4800); memory and network
/// are what such servers are commonly sold with.
Machine xeon_2s() {
  Machine machine = two_sockets("xeon-2s", {.model = "Intel Xeon Platinum 8480+",
                                            .cores = 56,
                                            .numa_nodes = 1,
                                            .cores_per_l3 = 56,
                                            .l3_bytes = 105 * kMiB,
                                            .l2_bytes = 2 * kMiB,
                                            .l1_bytes = 48 * kKiB,
                                            .memory_bytes = 256 * kGiB,
                                            .memory_bytes_per_s = 8 * 38.4e9,
                                            .memory_source = "8 channels of DDR5-4800 per socket"});
  add_ethernet(machine);
  return machine;
}

/// Source: AMD's page of the EPYC 9654 (96 cores, 384 MB L3 in 12 dies, 12 channels of DDR5-4800), as one NUMA node per
/// socket (NPS1); memory and network as above.
Machine epyc_2s() {
  Machine machine = two_sockets("epyc-2s", {.model = "AMD EPYC 9654",
                                            .cores = 96,
                                            .numa_nodes = 1,
                                            .cores_per_l3 = 8,
                                            .l3_bytes = 32 * kMiB,
                                            .l2_bytes = 1 * kMiB,
                                            .l1_bytes = 32 * kKiB,
                                            .memory_bytes = 384 * kGiB,
                                            .memory_bytes_per_s = 12 * 38.4e9,
                                            .memory_source = "12 channels of DDR5-4800 per socket"});
  add_ethernet(machine);
  return machine;
}

struct Row {
  std::string_view name;
  Machine (*make)();
};

constexpr Row kMachines[] = {
    {"dgx-a100", dgx_a100}, {"dgx-h100", dgx_h100}, {"dgx-h200", dgx_h200}, {"dgx-b200", dgx_b200},
    {"aws-p5", aws_p5},     {"xeon-2s", xeon_2s},   {"epyc-2s", epyc_2s},
};

}  // namespace

std::vector<std::string_view> machine_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kMachines) names.push_back(row.name);
  return names;
}

Machine named_machine(std::string_view name) {
  for (const Row& row : kMachines) {
    if (row.name == name) return row.make();
  }
  throw Error(Code::InvalidArgument,
              fmt::format("'{}': no such machine; known are {}", name, fmt::join(machine_names(), ", ")));
}

}  // namespace sinew
