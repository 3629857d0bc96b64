#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/cost_cache.hpp>
#include <sinew/core/random.hpp>

namespace sinew {
namespace {

std::string new_file() { return fmt::format("{}/sinew-costs-{:x}/costs.json", testing::TempDir(), random_id()); }

MeasuredCosts some_costs(double rate) {
  MeasuredCosts costs;
  costs.links["wire"].latency_s = 1e-6;
  costs.links["wire"].knots.push_back({64.0, rate});
  costs.offloads["wire"] = {std::byte{7}, std::byte{255}};
  costs.copy_bytes_per_s = rate;
  costs.unfinished = {"other"};
  costs.again_at_s = 12345;
  return costs;
}

void expect_equal(const MeasuredCosts& a, const MeasuredCosts& b) { EXPECT_EQ(to_bytes(a), to_bytes(b)); }

TEST(CostCache, GivesBackWhatWasSaved) {
  const std::string file = new_file();
  save_costs(file, 2, some_costs(1e9));
  ASSERT_TRUE(load_costs(file, 2).has_value());
  expect_equal(*load_costs(file, 2), some_costs(1e9));
  expect_equal(costs_from_bytes(to_bytes(some_costs(3e9))), some_costs(3e9));
}

TEST(CostCache, KeepsMachinesApart) {
  const std::string file = new_file();
  save_costs(file, 2, some_costs(1e9));
  save_costs(file, 8, some_costs(8e9));
  expect_equal(*load_costs(file, 2), some_costs(1e9));
  expect_equal(*load_costs(file, 8), some_costs(8e9));
  EXPECT_FALSE(load_costs(file, 4).has_value());
}

TEST(CostCache, StartsAnew_WhenTheFileIsBroken) {
  for (const std::string content :
       {"", "{", "[]", "null", R"({"format":3})", R"({"format":3,"machines":7})", R"({"format":999,"machines":{}})"}) {
    const std::string file = new_file();
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << content;
    EXPECT_FALSE(load_costs(file, 2).has_value()) << content;
    save_costs(file, 2, some_costs(1e9));
    EXPECT_TRUE(load_costs(file, 2).has_value()) << content;
  }
}

TEST(CostCache, HoldsNothing_WhenThereIsNoFileToWrite) {
  EXPECT_FALSE(load_costs("", 2).has_value());
  save_costs("", 2, some_costs(1e9));
  save_costs("/proc/nowhere/costs.json", 2, some_costs(1e9));
  EXPECT_FALSE(load_costs("/proc/nowhere/costs.json", 2).has_value());
  EXPECT_FALSE(load_costs(testing::TempDir(), 2).has_value());
}

}  // namespace
}  // namespace sinew
