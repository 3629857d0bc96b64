// Devices for engines, on the fake driver and the fake cuBLAS that LD_LIBRARY_PATH puts before the real ones.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/cublas.hpp>
#include <sinew/parallel/compute/opened_device.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;

TEST(OpenedDevice, TakesTheNumberOfTheNameOrThePlaceOfTheRank) {
  const int devices = OpenedDevice("cuda").device().runtime->device_count();
  ASSERT_GT(devices, 1);
  EXPECT_EQ(OpenedDevice("cuda").device().stream.device, 0);
  EXPECT_EQ(OpenedDevice("cuda:1").device().stream.device, 1);
  EXPECT_EQ(OpenedDevice("cuda:1", 5 * devices).device().stream.device, 1);
  EXPECT_EQ(OpenedDevice("cuda", devices - 1).device().stream.device, devices - 1);
  EXPECT_EQ(OpenedDevice("cuda", 2 * devices + 1).device().stream.device, 1);
}

TEST(OpenedDevice, HasARuntimeAndAStreamOfItsOwn) {
  const OpenedDevice one("cuda:0"), other("cuda:0");
  EXPECT_TRUE(one.device().exists());
  EXPECT_NE(one.device().runtime, other.device().runtime);
  EXPECT_NE(one.device().stream.stream, nullptr);
  EXPECT_NE(one.device().stream.stream, other.device().stream.stream);
}

TEST(OpenedDevice, SaysWhatWasAskedAndFound) {
  const std::string devices = std::to_string(OpenedDevice("cuda").device().runtime->device_count());
  EXPECT_EQ(complaint([] { OpenedDevice("cuda:77"); }), "device 'cuda:77': found " + devices +
                                                            " device(s), expected a number from 0 to " +
                                                            std::to_string(std::stoi(devices) - 1));
  for (const std::string name : {"", "tpu", "cuda:", "cuda1", "cuda:-1", "cuda:1x", "cudas"}) {
    EXPECT_EQ(complaint([&] { OpenedDevice{name}; }),
              "device '" + name + "': expected cuda, or cuda: and the number of a device such as cuda:0");
  }
}

TEST(Cublas, IsFoundByTheLoader_AndMultipliesMatricesOfTheHost) {
  const auto blas = make_cublas();
  EXPECT_FALSE(blas->device().exists());
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, -1, 2, 3, 1};
  std::vector<float> c{1, 1, 1, 1};
  blas->multiply({.m = 2, .n = 2, .k = 3, .la = 3, .lb = 2, .lc = 2}, 1.0F, a.data(), b.data(), 1.0F, c.data());
  EXPECT_EQ(c, (std::vector<float>{9, 8, 18, 17}));
}

}  // namespace
}  // namespace sinew::parallel
