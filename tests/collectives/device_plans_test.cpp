// Plans for the memory of GPUs on machines that need not be here.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

const std::vector<std::string> kMachines = {"dgx-a100", "dgx-h100", TOPOLOGY_DATA "/dgx_h100_nccl.xml"};
const std::vector<int> kHosts = {1, 2, 16};
const std::vector<std::uint64_t> kSizes = {kMiB, 16 * kMiB, 128 * kMiB, 1024 * kMiB};

CollectiveDesc sum_of(std::uint64_t bytes) {
  return {.collective = Collective::AllReduce,
          .dtype = DType::F32,
          .place = {MemoryKind::Device, 0},
          .count = bytes / sizeof(float)};
}

/// The plans of all-reduces of these sizes on so many of these hosts.
std::vector<Plan> plans_on(const std::string& machine, int hosts, const std::vector<std::uint64_t>& sizes,
                           const std::vector<std::string>& transports = {}) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(120);
  std::vector<Plan> plans;
  const auto on =
      make_virtual_world_with_devices(virtual_cluster_from(machine + "x" + std::to_string(hosts)), transports);
  run_virtual_ranks(on, options, [&](World& world) {
    if (world.rank() != 0) return;
    for (const std::uint64_t bytes : sizes) plans.push_back(world.communicator().plan(sum_of(bytes)));
  });
  return plans;
}

TEST(DevicePlans, TakeNcclInTheSwitchOrOverNvLink_FromOneMebibyteToOneGibibyte) {
  for (const std::string& machine : kMachines) {
    for (const int hosts : kHosts) {
      for (const Plan& plan : plans_on(machine, hosts, kSizes)) {
        EXPECT_EQ(plan.chosen().algorithm, "nccl") << machine << " x " << hosts << ": " << plan.explain();
        EXPECT_EQ(plan.chosen().source, CostSource::Catalog);
      }
    }
  }
}

TEST(DevicePlans, ExpectSumsInTheSwitch_OfLongCallsOnHopper) {
  const auto expectation = [](const std::string& machine, int hosts) {
    return plans_on(machine, hosts, {256 * kMiB}).front().chosen().method;
  };
  EXPECT_THAT(expectation("dgx-h100", 1), HasSubstr("expected: NVLS, Simple"));
  EXPECT_THAT(expectation("dgx-h100", 2), HasSubstr("expected: NVLSTree, Simple"));
  EXPECT_THAT(expectation("dgx-h100", 16), HasSubstr("expected: NVLSTree, Simple"));
  EXPECT_THAT(expectation("dgx-a100", 1), HasSubstr("expected: Ring, Simple"));
}

/// cuda_ipc wins where nothing else is predicted to be as fast, and its losses show by how much it is slower.
TEST(DevicePlans, TakeCudaIpc_OnlyWhereItIsPredictedToBeFaster) {
  for (const std::string& machine : kMachines) {
    for (const Plan& plan : plans_on(machine, 1, {64, 64 << 10, kMiB, 1024 * kMiB})) {
      const auto ipc = std::ranges::find(plan.candidates(), "cuda_ipc", &Candidate::algorithm);
      ASSERT_NE(ipc, plan.candidates().end());
      if (ipc->rejected.find("this build has no device kernels") != std::string::npos) GTEST_SKIP() << ipc->rejected;
      ASSERT_EQ(ipc->rejected, "");
      EXPECT_GE(ipc->predicted, plan.chosen().predicted);
    }
    for (const Plan& plan : plans_on(machine, 1, kSizes, {"inproc", "cuda_ipc"}))
      EXPECT_EQ(plan.chosen().algorithm, "cuda_ipc") << "without NCCL: " << plan.explain();
  }
}

TEST(DevicePlans, AreHierarchicalAcrossHosts_WithoutNccl) {
  for (const std::string& machine : kMachines) {
    for (const int hosts : {2, 16}) {
      for (const Plan& plan : plans_on(machine, hosts, kSizes, {"inproc", "cuda_ipc"})) {
        EXPECT_EQ(plan.chosen().algorithm, "device_hierarchy") << machine << " x " << hosts;
        EXPECT_THAT(plan.chosen().method, HasSubstr("within each host cuda_ipc")) << machine << " x " << hosts;
        EXPECT_THAT(plan.chosen().method, HasSubstr("staged, through pinned host memory")) << machine << " x " << hosts;
      }
    }
  }
}

/// Between hosts both are candidates, with predicted times. NCCL writes from device to device, and wins.
TEST(DevicePlans, ShowTheHierarchyBesideNccl) {
  for (const std::string& machine : kMachines) {
    for (const Plan& plan : plans_on(machine, 2, kSizes)) {
      const auto hierarchy = std::ranges::find(plan.candidates(), "device_hierarchy", &Candidate::algorithm);
      ASSERT_NE(hierarchy, plan.candidates().end());
      EXPECT_EQ(hierarchy->rejected, "");
      EXPECT_GT(hierarchy->predicted, plan.chosen().predicted);
      EXPECT_THAT(hierarchy->method, HasSubstr("within each host cuda_ipc"));
    }
  }
}

/// A rank's part is an eighth of what the host sends, and all NICs of the host carry parts at the same time.
TEST(DevicePlans, ExpectTheHierarchyToUseAllNics) {
  const auto predicted = [](const char* name) {
    for (const Plan& plan : plans_on("dgx-h100", 2, {1024 * kMiB}, {"inproc", "cuda_ipc"})) {
      const auto way = std::ranges::find(plan.candidates(), name, &Candidate::algorithm);
      if (way != plan.candidates().end()) return way->predicted;
    }
    return Seconds{0};
  };
  EXPECT_GT(predicted("staged"), 2 * predicted("device_hierarchy"));
}

TEST(DevicePlans, HoldNoMoreThanAFixedAmountForBlocksThatPassThrough) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(120);
  const auto on = make_virtual_world_with_devices(virtual_cluster_from("dgx-h100x2"), {"inproc", "cuda_ipc"});
  run_virtual_ranks(on, options, [](World& world) {
    CollectiveDesc desc = sum_of(kMiB);
    desc.collective = Collective::AllToAll;
    desc.count = 64 * kMiB;  // 4 GiB in all
    EXPECT_THAT(world.communicator().plan(desc).explain(),
                HasSubstr("it would hold 4GiB of device memory beside the buffers, more than 256MiB"));
  });
}

TEST(DevicePlans, RejectDeviceOffloads_ForHostMemory) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(120);
  run_virtual_ranks(make_virtual_world_with_devices(virtual_cluster_from("dgx-h100x1"), {}), options,
                    [&](World& world) {
                      CollectiveDesc desc = sum_of(kMiB);
                      desc.place = {};
                      const std::string plan = world.communicator().plan(desc).explain();
                      EXPECT_THAT(plan, HasSubstr("the buffers are not device memory"));
                    });
}

TEST(DevicePlans, NeedAMachineWithGpus) {
  try {
    static_cast<void>(make_virtual_world_with_devices(virtual_cluster_from("xeon-2sx1"), {}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_STREQ(e.what(), "'xeon-2sx1': expected a machine with GPUs, for plans of their memory");
  }
}

}  // namespace
}  // namespace sinew::test
