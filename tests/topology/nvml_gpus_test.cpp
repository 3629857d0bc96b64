#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover.hpp>
#include <sinew/topology/discover/nvml_gpus.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

using testing::Contains;
using testing::Each;
using testing::Field;

/// This machine with the GPUs of the fake libnvidia-ml.so.1, see tests/fakes/fake_nvml.cpp.
Machine machine_with_gpus(const char* fake) {
  setenv("FAKE_NVML", fake, 1);
  Machine machine = discover(Config{});
  unsetenv("FAKE_NVML");
  return machine;
}

std::string between(const Machine& machine, std::size_t a, std::size_t b) {
  return to_text(distance(machine, "gpu:" + std::to_string(a), "gpu:" + std::to_string(b)));
}

TEST(Nvml, OfADgxH100HasEightGpusOnFourNvSwitches) {
  const Machine m = machine_with_gpus("dgx-h100");
  ASSERT_EQ(m.gpus.size(), 8u);
  EXPECT_EQ(m.gpus[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(m.gpus[0].pci, "0000:1b:00.0");
  EXPECT_EQ(m.gpus[7].uuid, "GPU-00000000-0000-0000-0000-0000000000DF");
  EXPECT_THAT(m.gpus, Each(Field(&Gpu::memory_bytes, 81559ull << 20)));
  EXPECT_THAT(m.gpus, Each(Field(&Gpu::mig, MigMode::Off)));
  EXPECT_THAT(m.gpus, Each(Field(&Gpu::nvlinks, 18)));
  EXPECT_THAT(m.gpus, Each(Field(&Gpu::nvlink_generation, 4)));
  EXPECT_EQ(m.nvswitches,
            (std::vector<NvSwitch>{{"0000:05:00.0"}, {"0000:06:00.0"}, {"0000:07:00.0"}, {"0000:08:00.0"}}));
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < 8; ++b) EXPECT_EQ(between(m, a, b), a == b ? "X" : "NV18");
  }
  const auto link = std::ranges::find(m.links, "nvswitch:1", &Link::to);
  ASSERT_NE(link, m.links.end());
  EXPECT_EQ(link->width, 5);
  EXPECT_DOUBLE_EQ(link->bytes_per_s.value.value(), 5 * 26562e6);
  EXPECT_EQ(machine_from_json(to_json(m)), m);
}

TEST(Nvml, JoinsGpusDirectly_AndTakesTheDatasheetsSpeed_WhereTheDriverSaysNone) {
  const Machine m = machine_with_gpus("bridged");
  ASSERT_EQ(m.gpus.size(), 2u);
  EXPECT_TRUE(m.nvswitches.empty());
  EXPECT_EQ(between(m, 0, 1), "NV4");
  ASSERT_EQ(std::ranges::count(m.links, LinkKind::NvLink, &Link::kind), 1) << "both ends list it";
  const auto link = std::ranges::find(m.links, LinkKind::NvLink, &Link::kind);
  EXPECT_EQ(2 * link->bytes_per_s.value.value(), 112.5e9) << "RTX A6000 datasheet";
  EXPECT_THAT(m.gpus, Each(Field(&Gpu::mig, MigMode::Off)));
}

TEST(Nvml, DoesNotTakeAGpuThatIsNotShownForAnNvSwitch) {
  const Machine m = machine_with_gpus("half");
  ASSERT_EQ(m.gpus.size(), 1u);
  EXPECT_EQ(m.gpus[0].nvlinks, 4);
  EXPECT_TRUE(m.nvswitches.empty());
  EXPECT_THAT(m.unseen, Contains(Unseen{"NVLinks of gpu:0 to 0000:a1:00.0", "that GPU is not shown here"}));
}

/// hwloc's own variable shows the PCI tree of another machine, with the GPU at 1b:00.0 and a NIC beside it.
TEST(Nvml, AddsToTheGpusThatPciShows) {
  setenv("HWLOC_XMLFILE", TOPOLOGY_DATA "/two_sockets_hwloc.xml", 1);
  const Machine m = machine_with_gpus("dgx-h100");
  unsetenv("HWLOC_XMLFILE");
  ASSERT_EQ(m.gpus.size(), 8u) << "one of them by both";
  EXPECT_EQ(m.gpus[0].pci, "0000:1b:00.0");
  EXPECT_EQ(m.gpus[0].numa_node, 0);
  EXPECT_EQ(m.gpus[0].memory_bytes, 81559ull << 20);
  EXPECT_EQ(to_text(distance(m, "gpu:0", "pci:0000:18:00.0")), "PIX");
  EXPECT_EQ(between(m, 0, 1), "NV18");
}

TEST(Nvml, TakesEndsThatAreNotShownForOneNvSwitch) {
  const Machine m = machine_with_gpus("virtual");
  EXPECT_EQ(m.nvswitches, std::vector{NvSwitch{""}});
  EXPECT_EQ(between(m, 0, 7), "NV18");
}

TEST(Nvml, ShowsTheOthers_WhenAGpuIsLost) {
  const Machine m = machine_with_gpus("lost");
  ASSERT_EQ(m.gpus.size(), 7u);
  EXPECT_EQ(m.gpus[3].pci, "0000:9d:00.0");
  EXPECT_THAT(m.unseen, Contains(Unseen{"GPU 3 of NVML", "nvmlDeviceGetHandleByIndex_v2: GPU is lost"}));
  EXPECT_EQ(m.gpus[4].mig, MigMode::On);
  EXPECT_EQ(m.gpus[5].mig, MigMode::Off);
}

TEST(Nvml, IsNoMatter_WhereThereIsNoGpu) {
  const Machine m = machine_with_gpus("refused");
  EXPECT_TRUE(m.gpus.empty());
  EXPECT_THAT(m.unseen, testing::Not(Contains(Field(&Unseen::why, testing::HasSubstr("nvml")))));
}

TEST(Nvml, SaysWhy_WhereThereIsAGpuAndTheDriverRefuses) {
  Machine m;
  m.pci_devices = {{"0000:1b:00.0", PciKind::Display, 0x10de, 0x2330, "", "", 0, ""}};
  m.gpus = {{.pci = "0000:1b:00.0"}};
  setenv("FAKE_NVML", "refused", 1);
  read_nvml(m);
  unsetenv("FAKE_NVML");
  EXPECT_THAT(m.unseen, testing::ElementsAre(Unseen{"NVLinks, peer access, memory, UUID and MIG of the GPUs",
                                                    "nvmlInit_v2: Driver Not Loaded"}));
  EXPECT_EQ(m.gpus[0].nvlinks, -1);
}

}  // namespace
}  // namespace sinew
