#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/selector.hpp>
#include <sinew/core/transport/device_links.hpp>

#include "fakes/fixed_offload.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

/// An offload of device memory.
class FixedDeviceOffload : public FixedOffload {
 public:
  using FixedOffload::FixedOffload;
  CostSource source() const noexcept override { return CostSource::Catalog; }
};

class DeviceTimes : public testing::Test {
 protected:
  /// Two ranks on one host, and one transport.
  DeviceTimes() {
    for (int r = 0; r < 2; ++r) facts_.ranks.push_back({.host = 0, .process = r, .device = 0});
    facts_.cores_of_host = {2};
    facts_.transports = {"wire"};
    CostCurve curve;
    curve.latency_s = 1e-6;
    curve.knots.push_back({4096.0, 1e9});
    facts_.links[{0, 0, false}] = {{"wire", {true, {}, curve, "wire"}}};
    offloads_.push_back({"there", std::make_unique<FixedDeviceOffload>(1e-3)});
  }
  Candidate of_offload(MemoryKind memory = MemoryKind::Device) {
    CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = kCount};
    desc.place = {memory, 0};
    const Plan plan = Selector(facts_, both_, offloads_).select(desc).plan;
    return *std::ranges::find(plan.candidates(), "fixed", &Candidate::algorithm);
  }
  void see(Seconds seconds) {
    facts_.seen.devices = devices();
    for (int i = 0; i < SeenTimes::kFewest; ++i)
      facts_.seen.add({{2}, "all_reduce", "fixed", "there"}, 4 * kCount, seconds);
  }
  void tune(Seconds seconds, const std::string& devices) {
    facts_.tuned.file = "times.json";
    facts_.tuned.ranks_on = {2};
    facts_.tuned.ways.push_back({"all_reduce", "fixed", "there", {{8, seconds}, {64 << 20, seconds}}, devices});
  }
  std::string devices() const { return device_kind(facts_.devices_of(both_)); }

  static constexpr std::uint64_t kCount = 1 << 16;
  const std::vector<int> both_{0, 1};
  Facts facts_;
  std::vector<NamedOffload> offloads_;
};

TEST_F(DeviceTimes, AreTunedOnes_ThenThoseOfEarlierJobs_ThenTheModels) {
  EXPECT_EQ(of_offload().source, CostSource::Catalog);
  EXPECT_DOUBLE_EQ(of_offload().predicted, 1e-3);
  see(2e-3);
  EXPECT_EQ(of_offload().source, CostSource::Measured);
  EXPECT_DOUBLE_EQ(of_offload().predicted, 2e-3);
  EXPECT_THAT(of_offload().method, HasSubstr("as earlier jobs saw it"));
  tune(3e-3, devices());
  EXPECT_EQ(of_offload().source, CostSource::TunedFile);
  EXPECT_DOUBLE_EQ(of_offload().predicted, 3e-3);
}

TEST_F(DeviceTimes, NeverMixWithThoseOfHostMemory) {
  tune(3e-3, "");
  see(2e-3);
  EXPECT_EQ(of_offload(MemoryKind::Host).source, CostSource::TunedFile);
  EXPECT_EQ(of_offload().source, CostSource::Measured);
  facts_.seen = {};
  facts_.tuned.ways.clear();
  tune(3e-3, devices());
  EXPECT_EQ(of_offload(MemoryKind::Host).source, CostSource::Catalog);
}

TEST_F(DeviceTimes, HoldForDevicesOfTheirKindOnly) {
  see(2e-3);
  tune(3e-3, "another kind");
  EXPECT_EQ(of_offload().source, CostSource::Measured);
  facts_.seen.devices = "another kind";
  EXPECT_EQ(of_offload().source, CostSource::Catalog);
}

}  // namespace
}  // namespace sinew::test
