#include <limits>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/transport/device_links.hpp>

namespace sinew {
namespace {

DeviceLinks some_links() {
  return {.host = 3,
          .model = "NVIDIA H100 80GB HBM3",
          .compute_capability = 90,
          .number = 5,
          .nvlinks = 18,
          .nvlink_generation = 4,
          .has_nvswitch = true,
          .nvlink_bytes_per_s = 370e9,
          .pci_bytes_per_s = 48e9,
          .peers = {{DevicePath::Unknown, 0}, {DevicePath::NvLink, 18}},
          .nic = "mlx5_0:1",
          .nic_path = DevicePath::PciSwitch,
          .nics = 0.5,
          .nic_bytes_per_s = 24e9,
          .nic_latency_s = 7e-6,
          .nic_keeps_order = false};
}

TEST(DeviceLinks, AreTheSame_AfterTheirWayAsBytes) {
  EXPECT_EQ(device_links_from_bytes(to_bytes(some_links())), some_links());
  EXPECT_EQ(device_links_from_bytes(to_bytes({})), DeviceLinks{});
}

TEST(DeviceLinks, RejectBytesThatAreNone) {
  const Bytes good = to_bytes(some_links());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(static_cast<void>(device_links_from_bytes({good.begin(), good.begin() + static_cast<long>(length)})),
                 Error);
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THROW(static_cast<void>(device_links_from_bytes(longer)), Error);
  DeviceLinks wrong = some_links();
  wrong.nic_path = static_cast<DevicePath>(77);
  EXPECT_THROW(static_cast<void>(device_links_from_bytes(to_bytes(wrong))), Error);
  for (int DeviceLinks::*number : {&DeviceLinks::compute_capability, &DeviceLinks::number, &DeviceLinks::nvlinks}) {
    for (const int value : {-2, std::numeric_limits<int>::max()}) {
      wrong = some_links();
      wrong.*number = value;
      EXPECT_THROW(static_cast<void>(device_links_from_bytes(to_bytes(wrong))), Error) << value;
    }
  }
  for (const double rate : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    wrong = some_links();
    wrong.nvlink_bytes_per_s = rate;
    EXPECT_THROW(static_cast<void>(device_links_from_bytes(to_bytes(wrong))), Error) << rate;
  }
}

}  // namespace
}  // namespace sinew
