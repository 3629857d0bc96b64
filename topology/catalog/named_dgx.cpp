#include <array>
#include <span>

#include <fmt/format.h>

#include <sinew/topology/catalog/named_dgx.hpp>
#include <sinew/topology/model/machine_parts.hpp>
#include <sinew/topology/model/nvlink.hpp>

namespace sinew::machine_parts {
namespace {

constexpr double kPci4 = 16e9;
constexpr double kPci5 = 32e9;
constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kKiB = 1ull << 10;

/// Which GPU, and the NIC beside it; buses of domain 0.
struct GpuAndNic {
  int gpu_bus;
  int nic_bus;
  int numa_node;
  int nic_number;  ///< of mlx5_N
};

std::string on_bus(int bus) { return fmt::format("0000:{:02x}:00.0", bus); }

Nic infiniband(int number, double bytes_per_s, const char* source) {
  const std::string device = fmt::format("mlx5_{}", number);
  return {.name = device + ":1",
          .kind = NicKind::InfiniBand,
          .bytes_per_s = Figure::of(bytes_per_s, source),
          .rdma = {device, 1, RdmaState::Active, ""}};
}

/// `links[s]`: NVLinks of each GPU to switch s.
void add_nvswitches(Machine& machine, int first_bus, std::span<const int> links, int generation) {
  for (std::size_t s = 0; s < links.size(); ++s)
    machine.nvswitches.push_back({on_bus(first_bus + static_cast<int>(s))});
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    for (std::size_t s = 0; s < links.size(); ++s) {
      machine.links.push_back(
          nvlink(fmt::format("gpu:{}", g), fmt::format("nvswitch:{}", s), links[s], nvlink_of_generation(generation)));
    }
  }
}

void add_left_out(Machine& machine) {
  machine.unseen.push_back({"network adapters for storage and management", "left out: they carry no collectives"});
  machine.unseen.push_back({"peer access between GPUs", "unknown: the driver of a running machine answers that"});
}

/// Eight PCI switches of generation 5, each with a GPU and the ConnectX-7 beside it.
void add_gpus_and_nics(Machine& machine, const Gpu& gpu, std::uint16_t device_id) {
  constexpr GpuAndNic kPairs[] = {{0x1b, 0x18, 0, 0}, {0x43, 0x40, 0, 3}, {0x52, 0x4f, 0, 4},  {0x61, 0x5e, 0, 5},
                                  {0x9d, 0x9a, 1, 6}, {0xc3, 0xc0, 1, 9}, {0xd1, 0xce, 1, 10}, {0xdf, 0xdc, 1, 11}};
  for (const GpuAndNic& pair : kPairs) {
    const std::string above = on_bus(pair.nic_bus - 2);
    add_switch(machine, {above, "", pair.numa_node, kPci5});
    add_nic(machine, {on_bus(pair.nic_bus), above, pair.numa_node, kPci5}, 0x1021,
            infiniband(pair.nic_number, 50e9, "ConnectX-7 datasheet: NDR, 400 Gbit/s"));
    add_gpu(machine, {on_bus(pair.gpu_bus), above, pair.numa_node, kPci5}, device_id, gpu);
  }
}

/// Source: DGX H100/H200 User Guide: hardware overview, and its table of network modules (which ConnectX-7 belongs to
/// which GPU, ibp24s0 is bus 0x18). Buses of GPUs, NVSwitches and NVLinks to each: public nvidia-smi listings.
Machine hopper(std::string name, const Gpu& gpu, std::uint16_t device_id) {
  Machine machine = two_sockets(std::move(name), {.model = "Intel Xeon Platinum 8480C",
                                                  .cores = 56,
                                                  .numa_nodes = 1,
                                                  .cores_per_l3 = 56,
                                                  .l3_bytes = 105 * kMiB,
                                                  .l2_bytes = 2 * kMiB,
                                                  .l1_bytes = 48 * kKiB,
                                                  .memory_bytes = 1024 * kGiB,
                                                  .memory_bytes_per_s = 8 * 38.4e9,
                                                  .memory_source = "8 channels of DDR5-4800 per socket"});
  add_gpus_and_nics(machine, gpu, device_id);
  constexpr int kLinks[] = {4, 5, 5, 4};
  add_nvswitches(machine, 0x05, kLinks, 4);
  add_left_out(machine);
  return machine;
}

}  // namespace

/// Source: DGX A100 User Guide (640 GB system). Two GPUs and two ConnectX-6 share a tree of PCI switches; the
/// processors run as four NUMA nodes each (NPS4). Buses and NUMA nodes: public nvidia-smi and NCCL listings.
Machine dgx_a100() {
  Machine machine = two_sockets("dgx-a100", {.model = "AMD EPYC 7742",
                                             .cores = 64,
                                             .numa_nodes = 4,
                                             .cores_per_l3 = 4,
                                             .l3_bytes = 16 * kMiB,
                                             .l2_bytes = 512 * kKiB,
                                             .l1_bytes = 32 * kKiB,
                                             .memory_bytes = 1024 * kGiB,
                                             .memory_bytes_per_s = 8 * 25.6e9,
                                             .memory_source = "8 channels of DDR4-3200 per socket"});
  const Gpu gpu{.name = "NVIDIA A100-SXM4-80GB", .memory_bytes = 80 * kGiB, .nvlinks = 12, .nvlink_generation = 3};
  constexpr GpuAndNic kPairs[] = {{0x07, 0x0c, 3, 0}, {0x0f, 0x12, 3, 1}, {0x47, 0x4b, 1, 2}, {0x4e, 0x54, 1, 3},
                                  {0x87, 0x8d, 7, 6}, {0x90, 0x94, 7, 7}, {0xb7, 0xba, 5, 8}, {0xbd, 0xcc, 5, 9}};
  std::string root;
  for (std::size_t p = 0; p < std::size(kPairs); ++p) {
    const GpuAndNic& pair = kPairs[p];
    if (p % 2 == 0) {
      root = on_bus(pair.gpu_bus - 6);
      add_switch(machine, {root, "", pair.numa_node, kPci4});
    }
    const std::string above_gpu = on_bus(pair.gpu_bus - 1);
    const std::string above_nic = on_bus(pair.nic_bus - 1);
    add_switch(machine, {above_gpu, root, pair.numa_node, kPci4});
    add_gpu(machine, {on_bus(pair.gpu_bus), above_gpu, pair.numa_node, kPci4}, 0x20b2, gpu);
    add_switch(machine, {above_nic, root, pair.numa_node, kPci4});
    add_nic(machine, {on_bus(pair.nic_bus), above_nic, pair.numa_node, kPci4}, 0x101b,
            infiniband(pair.nic_number, 25e9, "ConnectX-6 datasheet: HDR, 200 Gbit/s"));
  }
  constexpr int kLinks[] = {2, 2, 2, 2, 2, 2};
  add_nvswitches(machine, 0xc4, kLinks, 3);
  add_left_out(machine);
  return machine;
}

Machine dgx_h100() {
  return hopper("dgx-h100",
                {.name = "NVIDIA H100 80GB HBM3", .memory_bytes = 80 * kGiB, .nvlinks = 18, .nvlink_generation = 4},
                0x2330);
}

Machine dgx_h200() {
  return hopper("dgx-h200", {.name = "NVIDIA H200", .memory_bytes = 141 * kGiB, .nvlinks = 18, .nvlink_generation = 4},
                0x2335);
}

/// Source: DGX B200 datasheet and user guide. They have two Xeon Platinum 8570, 2 TB of memory, and eight B200 with
/// 1,440 GB together. They also have two NVSwitches and eight ConnectX-7 ports of 400 Gbit/s. The guide lists no buses:
/// they are chosen as those of a DGX H100.
Machine dgx_b200() {
  Machine machine = two_sockets("dgx-b200", {.model = "Intel Xeon Platinum 8570",
                                             .cores = 56,
                                             .numa_nodes = 1,
                                             .cores_per_l3 = 56,
                                             .l3_bytes = 300 * kMiB,
                                             .l2_bytes = 2 * kMiB,
                                             .l1_bytes = 48 * kKiB,
                                             .memory_bytes = 1024 * kGiB,
                                             .memory_bytes_per_s = 8 * 44.8e9,
                                             .memory_source = "8 channels of DDR5-5600 per socket"});
  const Gpu gpu{.name = "NVIDIA B200", .memory_bytes = 180 * kGiB, .nvlinks = 18, .nvlink_generation = 5};
  add_gpus_and_nics(machine, gpu, 0x2901);
  constexpr int kLinks[] = {9, 9};
  add_nvswitches(machine, 0x05, kLinks, 5);
  add_left_out(machine);
  return machine;
}

/// Source: AWS's page of p5.48xlarge, and the topology file of aws-ofi-nccl. The page has 192 virtual CPUs, 2 TiB,
/// eight H100 and 3,200 Gbit/s of EFA. The file has a GPU and four adapters of 100 Gbit/s below each PCI switch.
Machine aws_p5() {
  Machine machine = two_sockets("aws-p5", {.model = "AMD EPYC 7R13",
                                           .cores = 48,
                                           .numa_nodes = 1,
                                           .cores_per_l3 = 6,
                                           .l3_bytes = 32 * kMiB,
                                           .l2_bytes = 512 * kKiB,
                                           .l1_bytes = 32 * kKiB,
                                           .memory_bytes = 1024 * kGiB,
                                           .memory_bytes_per_s = 8 * 25.6e9,
                                           .memory_source = "8 channels of DDR4-3200 per socket"});
  constexpr int kBuses[] = {0x4f, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0};
  constexpr int kAdapters = 4;
  for (std::size_t g = 0; g < std::size(kBuses); ++g) {
    const int node = g < std::size(kBuses) / 2 ? 0 : 1;
    const std::string above = on_bus(static_cast<int>(g) + 1);
    add_switch(machine, {above, "", node, kPci5});
    add_gpu(machine, {on_bus(kBuses[g]), above, node, kPci5}, 0x2330,
            {.name = "NVIDIA H100 80GB HBM3", .memory_bytes = 80 * kGiB, .nvlinks = 18, .nvlink_generation = 4});
    for (int a = 1; a <= kAdapters; ++a) {
      const std::string device = fmt::format("rdmap{}s0", kBuses[g] + a - 1);
      add_nic(machine, {on_bus(kBuses[g] + a), above, node, kPci4}, 0xefa2,
              {.name = device + ":1",
               .kind = NicKind::Other,
               .driver = "efa",
               .bytes_per_s = Figure::of(12.5e9, "AWS: 32 adapters of 100 Gbit/s"),
               .rdma = {device, 1, RdmaState::Active, ""}});
    }
  }
  machine.nvswitches.push_back({""});
  for (std::size_t g = 0; g < machine.gpus.size(); ++g)
    machine.links.push_back(nvlink(fmt::format("gpu:{}", g), "nvswitch:0", 18, nvlink_of_generation(4)));
  add_left_out(machine);
  return machine;
}

}  // namespace sinew::machine_parts
