#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/call/bus_factor.hpp>
#include <sinew/topology/devices/nccl_model.hpp>

#include "device_jobs.hpp"

namespace sinew::test {
namespace {

constexpr double kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
constexpr int kNccl = 22807;

/// A published run of nccl-tests: bus bandwidth in GB/s, as nccl-tests defines it.
struct Run {
  const char* machine;
  int hosts;
  int version;
  Collective collective;
  double bytes;
  double gigabytes_per_s;
};

double predicted_bus_bandwidth(const Run& run) {
  const DeviceGroup group = group_on(run.machine, run.hosts);
  const Seconds seconds = NcclModel(group, run.version).predict(run.collective, run.bytes).seconds;
  return bus_factor(run.collective, group.ranks) * run.bytes / seconds / 1e9;
}

void expect_within(double share, const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const double predicted = predicted_bus_bandwidth(run);
    EXPECT_NEAR(predicted / run.gigabytes_per_s, 1, share)
        << name_of(run.collective) << " of " << run.bytes / kMiB << " MiB on " << run.machine << " x " << run.hosts
        << ": predicted " << predicted << ", published " << run.gigabytes_per_s;
  }
}

// Sources: Azure/AI-benchmarking-guide (ND A100 v4, ND H100 v5), crazyguitar/aws-gpu-communication-benchmark (p5),
// nccl-tests issue 212 (370 GB/s without NVLS).
TEST(NcclModel, PredictsPublishedRunsWithin15Percent) {
  using enum Collective;
  expect_within(0.15, {
                          {"dgx-h100", 1, 21805, AllReduce, kMiB, 43.7},
                          {"dgx-h100", 1, 21805, AllReduce, 64 * kMiB, 361.8},
                          {"dgx-h100", 1, 21805, AllReduce, kGiB, 466.4},
                          {"dgx-h100", 1, 21805, AllReduce, 8 * kGiB, 478.9},
                          {"dgx-h100", 1, 21600, AllReduce, 8 * kGiB, 370},
                          {"dgx-h100", 1, kNccl, AllReduce, 8 * kGiB, 480},
                          {"dgx-a100", 1, 21805, AllReduce, kMiB, 36.2},
                          {"dgx-a100", 1, 21805, AllReduce, 64 * kMiB, 166.6},
                          {"dgx-a100", 1, 21805, AllReduce, 8 * kGiB, 231.6},
                          {"aws-p5", 4, kNccl, AllReduce, 32 * kMiB, 95},
                          {"aws-p5", 8, kNccl, AllReduce, 32 * kMiB, 87},
                          {"aws-p5", 16, kNccl, AllReduce, 32 * kMiB, 75},
                          {"aws-p5", 32, kNccl, AllReduce, 32 * kMiB, 66},
                          {"aws-p5", 4, kNccl, AllReduce, 8 * kGiB, 357},
                          {"aws-p5", 8, kNccl, AllReduce, 8 * kGiB, 355},
                          {"aws-p5", 16, kNccl, AllReduce, 8 * kGiB, 356},
                          {"aws-p5", 32, kNccl, AllReduce, 8 * kGiB, 321},
                      });
}

// Sources: the same, and Azure ND H200 v5; public nccl-tests of two HGX B200 with ConnectX-7 (NCCL 2.28, in a virtual
// machine that hides the PCI tree) and of two hosts of DGX H200 and DGX H100 (nccl-tests issues 290, 309 and 312).
TEST(NcclModel, PredictsLongCallsOfOtherPublishedRunsWithin15Percent) {
  using enum Collective;
  expect_within(
      0.15,
      {
          {"dgx-h200", 1, 22005, AllReduce, kMiB, 52.96},      {"dgx-h200", 1, 22005, AllReduce, 16 * kMiB, 240.4},
          {"dgx-h200", 1, 22005, AllReduce, 8 * kGiB, 480},    {"dgx-b200", 1, kNccl, AllReduce, kMiB, 61},
          {"dgx-b200", 1, kNccl, AllReduce, 16 * kMiB, 274.4}, {"dgx-b200", 1, kNccl, AllReduce, 256 * kMiB, 659},
          {"dgx-b200", 1, kNccl, AllReduce, 16 * kGiB, 843},   {"dgx-b200", 1, kNccl, AllGather, kGiB, 632},
          {"dgx-b200", 1, kNccl, AllGather, 16 * kGiB, 672},   {"dgx-b200", 1, kNccl, ReduceScatter, 16 * kGiB, 695},
          {"dgx-b200", 1, kNccl, AllToAll, 16 * kMiB, 286},    {"dgx-b200", 1, kNccl, AllToAll, 256 * kMiB, 535},
          {"dgx-b200", 1, kNccl, AllToAll, 16 * kGiB, 673},    {"dgx-b200", 2, kNccl, AllReduce, 16 * kMiB, 165},
          {"dgx-b200", 2, kNccl, AllReduce, 16 * kGiB, 718},   {"dgx-b200", 2, kNccl, AllGather, 16 * kGiB, 308},
          {"dgx-b200", 2, kNccl, AllToAll, 16 * kGiB, 69.4},   {"dgx-h200", 2, 22300, AllReduce, kGiB, 446.6},
          {"dgx-h200", 2, 22300, AllReduce, 16 * kGiB, 478},   {"dgx-h100", 4, 22300, AllReduce, 8 * kGiB, 365.8},
          {"dgx-a100", 2, 21403, AllReduce, 10 * kGiB, 180},   {"aws-p5", 2, kNccl, AllReduce, 32 * kMiB, 147},
          {"aws-p5", 2, kNccl, AllReduce, 8 * kGiB, 478},      {"aws-p5", 2, kNccl, AllGather, 2 * kGiB, 329},
          {"aws-p5", 4, kNccl, AllGather, 2 * kGiB, 331},      {"aws-p5", 16, kNccl, AllGather, 32 * kMiB, 25},
          {"aws-p5", 32, kNccl, AllGather, 32 * kMiB, 12.5},   {"aws-p5", 2, kNccl, AllToAll, 2 * kGiB, 79.3},
          {"aws-p5", 4, kNccl, AllToAll, 2 * kGiB, 54},        {"aws-p5", 16, kNccl, AllToAll, 2 * kGiB, 44.2},
          {"aws-p5", 32, kNccl, AllToAll, 2 * kGiB, 40.9},
      });
}

NcclForecast forecast(const char* machine, int hosts, double bytes, int version = kNccl) {
  return NcclModel(group_on(machine, hosts), version).predict(Collective::AllReduce, bytes);
}

TEST(NcclModel, AddsInTheSwitch_FromHopperAndItsFirstVersionsOn) {
  EXPECT_EQ(forecast("dgx-h100", 1, 64 * kMiB, 21700).algorithm, NcclAlgorithm::Nvls);
  EXPECT_EQ(forecast("dgx-h100", 1, 64 * kMiB, 21602).algorithm, NcclAlgorithm::Ring);
  EXPECT_EQ(forecast("dgx-h100", 2, 64 * kMiB, 21800).algorithm, NcclAlgorithm::NvlsTree);
  EXPECT_NE(forecast("dgx-h100", 2, 64 * kMiB, 21700).algorithm, NcclAlgorithm::NvlsTree);
  EXPECT_EQ(forecast("dgx-a100", 1, 64 * kMiB).algorithm, NcclAlgorithm::Ring);
  EXPECT_EQ(forecast("dgx-b200", 16, kGiB).algorithm, NcclAlgorithm::NvlsTree);
}

TEST(NcclModel, AddsInNoSwitch_WhereHostsHaveDifferentNumbersOfDevices) {
  std::vector<DeviceLinks> devices = devices_on(described_machine("dgx-h100"), 2, 8);
  devices.pop_back();
  const NcclForecast uneven = NcclModel(device_group(devices), kNccl).predict(Collective::AllReduce, kGiB);
  EXPECT_NE(uneven.algorithm, NcclAlgorithm::NvlsTree);
}

TEST(NcclModel, SendsFlagsWithTheData_OfShortCallsOnly) {
  EXPECT_EQ(forecast("dgx-a100", 1, 8 * kKiB).protocol, NcclProtocol::Ll);
  EXPECT_EQ(forecast("dgx-a100", 1, 16 * kMiB).protocol, NcclProtocol::Ll128);
  EXPECT_EQ(forecast("dgx-a100", 1, kGiB).protocol, NcclProtocol::Simple);
}

TEST(NcclModel, TakesNoLl128_OverPciOrAHostBridgeOrANicThatReorders) {
  const auto has_ll128 = [](const DeviceGroup& group) {
    for (const NcclForecast& way : NcclModel(group, kNccl).ways(Collective::AllReduce, kMiB)) {
      if (way.protocol == NcclProtocol::Ll128) return true;
    }
    return false;
  };
  DeviceGroup group = group_on("dgx-h100", 2);
  EXPECT_TRUE(has_ll128(group));
  group.nic_path = DevicePath::HostBridge;
  EXPECT_FALSE(has_ll128(group));
  group = group_on("dgx-h100", 1);
  EXPECT_TRUE(has_ll128(group));
  group.path = DevicePath::PciSwitch;
  EXPECT_FALSE(has_ll128(group));
  EXPECT_FALSE(has_ll128(group_on("aws-p5", 2)));
}

/// The busiest link of a ring carries 2 (P - 1) / P bytes for each one of the call, and NCCL reaches 0.96 of it.
TEST(NcclModel, ComesToTheRateOfTheSlowestLink_InLongCalls) {
  DeviceGroup group{.ranks = 4,
                    .most_on_host = 4,
                    .fewest_on_host = 4,
                    .compute_capability = 80,
                    .path = DevicePath::PciSwitch,
                    .device_bytes_per_s = 20e9};
  const double bytes = 1024 * kGiB;
  EXPECT_NEAR(NcclModel(group, kNccl).predict(Collective::AllReduce, bytes).seconds, 1.5 * bytes / (0.96 * 20e9),
              0.01 * bytes / 20e9);
  group.hosts = 4;
  group.most_on_host = group.fewest_on_host = 1;
  group.host_bytes_per_s = group.nic_bytes_per_s = 5e9;
  group.nics = 1;
  group.nic_latency_s = 7e-6;
  EXPECT_NEAR(NcclModel(group, kNccl).predict(Collective::AllGather, bytes).seconds, 0.75 * bytes / (0.94 * 5e9),
              0.01 * bytes / 5e9);
}

TEST(NcclModel, TakesLongerForMoreBytes_AndNeverTakesNoTime) {
  using enum Collective;
  for (const char* machine : {"dgx-a100", "dgx-h100", "dgx-b200", "aws-p5"}) {
    for (const int hosts : {1, 2, 16}) {
      const NcclModel model(group_on(machine, hosts), kNccl);
      for (const Collective collective : {AllReduce, AllGather, AllGatherV, ReduceScatter, ReduceScatterV, AllToAll,
                                          AllToAllV, Broadcast, Reduce, Gather, GatherV, Scatter, ScatterV}) {
        Seconds before = 0;
        for (double bytes = 0; bytes <= 8 * kGiB; bytes = bytes == 0 ? 8 : 2 * bytes) {
          const Seconds seconds = model.predict(collective, bytes).seconds;
          EXPECT_TRUE(std::isfinite(seconds)) << name_of(collective) << " " << bytes;
          EXPECT_GT(seconds, 5e-6) << name_of(collective) << " " << bytes;
          EXPECT_GE(seconds, before) << name_of(collective) << " " << bytes;
          before = seconds;
        }
      }
    }
  }
}

TEST(NcclModel, TakesLongerOnMoreHosts) {
  for (const double bytes : {8 * kKiB, kMiB, 64 * kMiB, 8 * kGiB}) {
    Seconds before = 0;
    for (const int hosts : {1, 2, 4, 16, 32}) {
      const Seconds seconds = forecast("dgx-a100", hosts, bytes).seconds;
      EXPECT_GT(seconds, before) << hosts << " hosts, " << bytes << " bytes";
      before = seconds;
    }
  }
}

TEST(NcclModel, PredictsOneDeviceAndUnknownLinks) {
  const DeviceLinks unknown;
  const DeviceGroup alone = device_group({&unknown, 1});
  EXPECT_LT(NcclModel(alone, kNccl).predict(Collective::AllReduce, kGiB).seconds, 1e-4) << "nothing goes anywhere";
  const std::vector<DeviceLinks> two(2, unknown);
  const NcclForecast pci = NcclModel(device_group(two), kNccl).predict(Collective::AllReduce, kGiB);
  EXPECT_NEAR(pci.seconds, kGiB / 23e9, 0.1 * kGiB / 23e9) << "as over PCI Express 4.0";
}

TEST(NcclModel, NamesWaysAsNcclDoes) {
  EXPECT_EQ(to_text({0, NcclAlgorithm::NvlsTree, NcclProtocol::Simple}), "NVLSTree, Simple");
  EXPECT_EQ(to_text({0, NcclAlgorithm::Ring, NcclProtocol::Ll128}), "Ring, LL128");
  EXPECT_EQ(to_text({0, NcclAlgorithm::Tree, NcclProtocol::Ll}), "Tree, LL");
}

}  // namespace
}  // namespace sinew::test
