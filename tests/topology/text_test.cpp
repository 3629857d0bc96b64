#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover.hpp>
#include <sinew/topology/format/text/text.hpp>

#include "sample_machine.hpp"

namespace sinew {
namespace {

using test::sample_machine;

TEST(TopologyText, IsATreeWithUnits) {
  EXPECT_EQ(
      to_text(sample_machine()),
      "node1: Linux 6.1.0 x86_64, 96 GiB of memory, 4 cores, 4 usable\n"
      "├─ identity: node1/boot b/net 1\n"
      "├─ package 0: Model A, cores 0-1\n"
      "│  ├─ caches: L3 32 MiB per 2 cores, L1 32 KiB per core\n"
      "│  └─ NUMA node 0: 64 GiB, cores 0-1, 200 GB/s (HMAT), 90 ns (HMAT)\n"
      "├─ package 1: Model A, cores 2-3\n"
      "│  ├─ caches: L3 32 MiB per 2 cores\n"
      "│  └─ NUMA node 1: 32 GiB, cores 2-3\n"
      "├─ PCI devices that move data\n"
      "│  ├─ 0000:3a:00.0 bridge: 8086:2030, NUMA node 0, link unknown\n"
      "│  └─ 0000:3b:00.0 accelerator: NVIDIA H200, NUMA node 0, below 0000:3a:00.0, link 63 GB/s (PCI)\n"
      "├─ GPU 0: NVIDIA H200 at 0000:3b:00.0, sm_90, NUMA node 0, 141 GiB, MIG off, 18 NVLinks of generation 4, "
      "GPU-257d8671\n"
      "│  └─ 18 NVLinks to 1 NVSwitch: 450 GB/s (NVLink 4)\n"
      "├─ GPU 1: NVIDIA H200 at 0000:bb:00.0, gfx942, NUMA node 1, 141 GiB, MIG on, 0 NVLinks, 7 XGMI links, "
      "GPU-9d01bb23\n"
      "├─ NVSwitch 0: at 0000:07:00.0\n"
      "├─ network\n"
      "│  ├─ lo: loopback, running, 127.0.0.1/8, rate unknown (loopback is no wire)\n"
      "│  └─ ib0: InfiniBand (mlx5_core) at 0000:5e:00.0, up without a link, 10.1.0.1/16, fe80::1/64, MTU 4092, RDMA "
      "port mlx5_0:1 "
      "(armed, GID fe80:0000:0000:0000:b83f:d203:00aa:00bb, MTU 2048 bytes), NUMA node 1, 100 Gbit/s = 12.5 GB/s "
      "(/sys/class/net/ib0/speed)\n"
      "├─ distances\n"
      "│  ├─         GPU0   GPU1    ib0  NUMA0  NUMA1\n"
      "│  ├─ GPU0       X    SYS    SYS    PHB    SYS\n"
      "│  ├─ GPU1     SYS      X    PHB    SYS    PHB\n"
      "│  ├─ ib0      SYS    PHB      X    SYS    PHB\n"
      "│  ├─ NUMA0    PHB    SYS    SYS      X    SYS\n"
      "│  ├─ NUMA1    SYS    PHB    PHB    SYS      X\n"
      "│  └─ PHB: a host bridge; SYS: the way between NUMA nodes\n"
      "├─ peer access between GPUs: read, write\n"
      "│  ├─       GPU0  GPU1\n"
      "│  ├─ GPU0     X    OK\n"
      "│  └─ GPU1    OK     X\n"
      "├─ peer access between GPUs: NVLink\n"
      "│  ├─       GPU0  GPU1\n"
      "│  ├─ GPU0     X    NS\n"
      "│  ├─ GPU1    NS     X\n"
      "│  └─ NS: not supported\n"
      "├─ peer access between GPUs: atomics\n"
      "│  ├─       GPU0  GPU1\n"
      "│  ├─ GPU0     X     U\n"
      "│  ├─ GPU1    DR     X\n"
      "│  └─ U: unknown (NVML is silent); DR: disabled by a setting of the driver\n"
      "├─ not seen\n"
      "│  └─ links between GPUs: not read\n"
      "└─ in the file, and left out\n"
      "   └─ known, but not described here: attribute gdr of <net>\n");
}

TEST(TopologyText, TellsUnknownMemoryFromNone) {
  Machine m = sample_machine();
  EXPECT_THAT(to_text(m), testing::Not(testing::HasSubstr("no memory"))) << "or the next shows nothing";
  m.numa_nodes[1].memory_bytes = 0;
  EXPECT_THAT(to_text(m), testing::HasSubstr("NUMA node 1: no memory, cores 2-3"));
  m.memory_bytes = m.numa_nodes[0].memory_bytes = 0;
  const std::string text = to_text(m);
  EXPECT_THAT(text, testing::HasSubstr("an unknown amount of memory"));
  EXPECT_THAT(text, testing::HasSubstr("NUMA node 0: unknown memory, cores 0-1"));
  EXPECT_THAT(text, testing::HasSubstr("NUMA node 1: unknown memory, cores 2-3"));
}

TEST(TopologyText, ShowsHostsAndRanksOfACluster) {
  const Cluster cluster{{sample_machine("a/1"), sample_machine("b/2")}, {{0, 0, 4}, {0, 0, 4}, {1, -1, 1}, {0, 1, 4}}};
  EXPECT_EQ(to_text(cluster),
            "4 ranks on 2 hosts\n"
            "host 0 a: ranks 0-1,3 (NUMA node 0: 0-1; NUMA node 1: 3), 4 cores usable\n"
            "host 1 b: ranks 2, 1 core usable\n");
}

TEST(TopologyText, SaysWhereACpuQuotaIsSet) {
  Machine m = sample_machine("a/1");
  EXPECT_THAT(to_text(m), testing::Not(testing::HasSubstr("quota"))) << "or the next shows nothing";
  m.cpu_quota = CpuQuota{1.5, "/sys/fs/cgroup/job/cpu.max"};
  m.usable_cores = 1;
  EXPECT_THAT(to_text(m), testing::HasSubstr("4 cores, 1 usable\n├─ identity: a/1\n"
                                             "├─ CPU quota: 1.5 cores (set by /sys/fs/cgroup/job/cpu.max)\n"));
  const Cluster cluster{{m}, {{0, 0, 1}}};
  EXPECT_THAT(to_text(cluster),
              testing::HasSubstr("1 core usable, CPU quota: 1.5 cores (set by /sys/fs/cgroup/job/cpu.max)\n"));
}

TEST(TopologyText, ShowsThisMachine) {
  const Machine here = discover(Config{});
  EXPECT_THAT(to_text(here), testing::HasSubstr("identity: " + here.identity));
}

}  // namespace
}  // namespace sinew
