#pragma once

#include <string>

#include <sinew/topology/machine.hpp>

namespace sinew::test {

/// Two packages with two cores each, an InfiniBand card, two GPUs, one of them below a bridge, and something unseen:
/// every field of Machine holds something.
inline Machine sample_machine(const std::string& identity = "node1/boot b/net 1") {
  Machine m;
  m.identity = identity;
  m.host_name = identity.substr(0, identity.find('/'));
  m.system = "Linux 6.1.0";
  m.architecture = "x86_64";
  m.memory_bytes = 96ull << 30;
  m.usable_cores = 4;
  m.packages = {{0, "Model A", {0, 1}}, {1, "Model A", {2, 3}}};
  m.numa_nodes = {{0, 0, 64ull << 30, {0, 1}}, {1, 1, 32ull << 30, {2, 3}}};
  m.caches = {{3, 32 << 20, 64, {0, 1}}, {3, 32 << 20, 64, {2, 3}}, {1, 32 << 10, 64, {0}}};
  m.cores = {{0, 0, {0, 4}, true}, {0, 0, {1, 5}, true}, {1, 1, {2, 6}, false}, {1, 1, {3, 7}, true}};
  m.pci_devices = {{"0000:3a:00.0", PciKind::Bridge, 0x8086, 0x2030, "", "", 0, "0000:3a"},
                   {"0000:3b:00.0", PciKind::Accelerator, 0x10de, 0x2335, "NVIDIA H200", "0000:3a:00.0", 0, "0000:3a"}};
  m.gpus = {{"NVIDIA H200", "0000:3b:00.0", 0, "GPU-257d8671", 141ull << 30, MigMode::Off, 18, 4, -1, "sm_90"},
            {"NVIDIA H200", "0000:bb:00.0", 1, "GPU-9d01bb23", 141ull << 30, MigMode::On, 0, 0, 7, "gfx942"}};
  const PeerStatus ok = PeerStatus::Ok;
  m.gpu_peers = {{0, 1, ok, ok, PeerStatus::NotSupported, PeerStatus::Unknown, "NVML is silent"},
                 {1, 0, ok, ok, PeerStatus::NotSupported, PeerStatus::Disabled, ""}};
  m.nvswitches = {{"0000:07:00.0"}};
  Nic lo{.name = "lo", .kind = NicKind::Other, .loopback = true, .up = true, .running = true};
  lo.addresses = {{"127.0.0.1", 8, false}};
  lo.bytes_per_s = Figure::unknown("loopback is no wire");
  Nic ib{.name = "ib0", .kind = NicKind::InfiniBand, .up = true, .driver = "mlx5_core", .hardware_address = "00:01"};
  ib.mtu_bytes = 4092;
  ib.addresses = {{"10.1.0.1", 16, false}, {"fe80::1", 64, true}};
  ib.bytes_per_s = Figure::of(12.5e9, "/sys/class/net/ib0/speed");
  ib.rdma = {"mlx5_0", 1, RdmaState::Armed, "fe80:0000:0000:0000:b83f:d203:00aa:00bb", 2048};
  ib.pci = "0000:5e:00.0";
  ib.numa_node = 1;
  m.nics = {lo, ib};
  m.links = {
      {LinkKind::Memory, "numa:0", "package:0", Figure::of(2e11, "HMAT"), Figure::of(9e-8, "HMAT")},
      {LinkKind::Pci, "pci:0000:3b:00.0", "pci:0000:3a:00.0", Figure::of(6.3e10, "PCI"),
       Figure::unknown("not measured")},
      {LinkKind::NvLink, "gpu:0", "nvswitch:0", Figure::of(4.5e11, "NVLink 4"), Figure::unknown("not measured"), 18},
      {LinkKind::Network, "nic:ib0", "network", ib.bytes_per_s, Figure::unknown("not measured")}};
  m.unseen = {{"links between GPUs", "not read"}};
  m.ignored = {{"box.xml", {9, 33}, "attribute gdr of <net>", "what a plugin can do", true}};
  return m;
}

}  // namespace sinew::test
