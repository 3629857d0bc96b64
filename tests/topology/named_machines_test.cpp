#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

TEST(NamedMachines, AreConsistentAndSayWhereEveryNumberIsFrom) {
  for (const std::string_view name : machine_names()) {
    const Machine m = named_machine(name);
    EXPECT_EQ(machine_from_json(to_json(m)), m) << name;
    EXPECT_EQ(m.host_name, name);
    for (const Link& link : m.links) {
      EXPECT_FALSE(link.bytes_per_s.source.empty() || link.latency_s.source.empty()) << name << " " << link.from;
    }
    for (const Nic& nic : m.nics) EXPECT_FALSE(nic.bytes_per_s.source.empty()) << name << " " << nic.name;
    std::vector<int> of_nodes;
    for (const NumaNode& node : m.numa_nodes) of_nodes.insert(of_nodes.end(), node.cores.begin(), node.cores.end());
    EXPECT_EQ(of_nodes.size(), m.cores.size()) << name;
    std::uint64_t memory = 0;
    for (const NumaNode& node : m.numa_nodes) memory += node.memory_bytes;
    EXPECT_EQ(memory, m.memory_bytes) << name;
  }
}

TEST(NamedMachines, DoNotGuessWhoMayUseWhoseMemory) {
  for (const std::string_view name : machine_names()) {
    const Machine m = named_machine(name);
    EXPECT_TRUE(m.gpu_peers.empty()) << name;
    const Unseen gap{"peer access between GPUs", "unknown: the driver of a running machine answers that"};
    EXPECT_EQ(std::ranges::count(m.unseen, gap), m.gpus.empty() ? 0 : 1) << name;
  }
}

/// What the datasheets print on their first page.
TEST(NamedMachines, HaveTheTotalsOfTheirDatasheets) {
  struct Expected {
    const char* name;
    std::size_t cores, numa_nodes, gpus, nvswitches, nics;
    double nvlink_bytes_per_s;  ///< of a GPU, both ways
    double network_bits_per_s;  ///< of all NICs
    std::uint64_t gpu_memory_gib;
  };
  for (const Expected& e : {Expected{"dgx-a100", 128, 8, 8, 6, 8, 600e9, 1.6e12, 640},
                            {"dgx-h100", 112, 2, 8, 4, 8, 900e9, 3.2e12, 640},
                            {"dgx-h200", 112, 2, 8, 4, 8, 900e9, 3.2e12, 1128},
                            {"dgx-b200", 112, 2, 8, 2, 8, 1800e9, 3.2e12, 1440},
                            {"aws-p5", 96, 2, 8, 1, 32, 900e9, 3.2e12, 640},
                            {"xeon-2s", 112, 2, 0, 0, 2, 0, 2e11, 0},
                            {"epyc-2s", 192, 2, 0, 0, 2, 0, 2e11, 0}}) {
    const Machine m = named_machine(e.name);
    EXPECT_EQ(m.packages.size(), 2u) << e.name;
    EXPECT_EQ(m.cores.size(), e.cores) << e.name;
    EXPECT_EQ(m.numa_nodes.size(), e.numa_nodes) << e.name;
    EXPECT_EQ(m.gpus.size(), e.gpus) << e.name;
    EXPECT_EQ(m.nvswitches.size(), e.nvswitches) << e.name;
    EXPECT_EQ(m.nics.size(), e.nics) << e.name;
    double nvlink = 0;
    for (const Link& link : m.links) {
      if (link.kind == LinkKind::NvLink && link.from == "gpu:0") nvlink += 2 * link.bytes_per_s.value.value();
    }
    EXPECT_EQ(nvlink, e.nvlink_bytes_per_s) << e.name;
    double network = 0;
    for (const Nic& nic : m.nics) network += 8 * nic.bytes_per_s.value.value();
    EXPECT_EQ(network, e.network_bits_per_s) << e.name;
    std::uint64_t gpu_memory = 0;
    for (const Gpu& gpu : m.gpus) gpu_memory += gpu.memory_bytes >> 30;
    EXPECT_EQ(gpu_memory, e.gpu_memory_gib) << e.name;
  }
}

/// Code and XML were written apart: GPUs, NICs and their ways must agree.
TEST(NamedMachines, DgxH100AgreesWithNcclsXmlOfOne) {
  const Machine named = named_machine("dgx-h100");
  const Machine imported = described_machine(TOPOLOGY_DATA "/dgx_h100_nccl.xml");
  ASSERT_EQ(named.gpus.size(), imported.gpus.size());
  for (std::size_t g = 0; g < named.gpus.size(); ++g) {
    EXPECT_EQ(named.gpus[g].pci, imported.gpus[g].pci);
    const std::string gpu = "gpu:" + std::to_string(g);
    for (const Nic& nic : imported.nics) {
      std::string expected = to_text(distance(imported, gpu, "nic:" + nic.name));
      if (expected == "PHB") expected = "NODE";  // the XML lists no host bridges
      EXPECT_EQ(to_text(distance(named, gpu, "nic:" + nic.name)), expected);
    }
    for (std::size_t other = 0; other < g; ++other) {
      const std::string b = "gpu:" + std::to_string(other);
      EXPECT_EQ(distance(named, gpu, b), distance(imported, gpu, b));
    }
  }
}

TEST(NamedMachines, AreListed_WhenTheNameIsUnknown) {
  try {
    (void)named_machine("dgx-h1000");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'dgx-h1000': no such machine; known are dgx-a100, dgx-h100, dgx-h200, dgx-b200, aws-p5, "
                 "xeon-2s, epyc-2s");
  }
}

}  // namespace
}  // namespace sinew
