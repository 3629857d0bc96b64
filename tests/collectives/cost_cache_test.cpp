#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <sinew/collectives/selection/cost_cache.hpp>
#include <sinew/core/system/file_text.hpp>

#include "support/scratch_folder.hpp"

namespace sinew {
namespace {

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
  const test::ScratchFolder folder;
  const std::string file = folder / "sinew/costs.json";  // a folder that is made
  save_costs(file, 2, some_costs(1e9));
  ASSERT_TRUE(load_costs(file, 2).has_value());
  expect_equal(*load_costs(file, 2), some_costs(1e9));
  expect_equal(costs_from_bytes(to_bytes(some_costs(3e9))), some_costs(3e9));
}

TEST(CostCache, KeepsMachinesApart) {
  const test::ScratchFolder folder;
  const std::string file = folder / "sinew/costs.json";  // a folder that is made
  save_costs(file, 2, some_costs(1e9));
  save_costs(file, 8, some_costs(8e9));
  expect_equal(*load_costs(file, 2), some_costs(1e9));
  expect_equal(*load_costs(file, 8), some_costs(8e9));
  EXPECT_FALSE(load_costs(file, 4).has_value());
  EXPECT_FALSE(load_costs(file, {2, true}).has_value());  // of a job under TLS
}

TEST(CostCache, MeasuresAnew_WhereAFileSaysWhatCannotBe) {
  const test::ScratchFolder folder;
  const std::string file = folder / "costs";
  for (const double rate : {-1e9, 0.0}) {
    save_costs(file, 2, some_costs(rate));
    EXPECT_FALSE(load_costs(file, 2).has_value()) << rate;
  }
  MeasuredCosts late = some_costs(1e9);
  late.links["wire"].latency_s = -1e-6;
  save_costs(file, 2, late);
  EXPECT_FALSE(load_costs(file, 2).has_value());
}

TEST(CostCache, LeavesAFileAlone_ThatHoldsSomethingElse) {
  const test::ScratchFolder folder;
  for (const std::string content :
       {"{", "[]", "null", "a letter to my aunt", R"({"machines":{}})", R"({"format":3,"machines":7})",
        R"({"format":1,"machine":"what sinew-bench tune writes"})", R"({"format":"sinew machine 3","machines":{}})",
        R"({"format":999,"machines":{}})"}) {
    const std::string file = folder / "letter";
    std::ofstream(file) << content;
    EXPECT_FALSE(load_costs(file, 2).has_value()) << content;
    save_costs(file, 2, some_costs(1e9));
    EXPECT_EQ(file_text(file), content);
  }
}

TEST(CostCache, FollowsALink_WhichStaysOne) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "real.json").close();
  std::filesystem::create_symlink(folder / "real.json", folder / "link.json");
  save_costs(folder / "link.json", 2, some_costs(1e9));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.json"));
  EXPECT_TRUE(load_costs(folder / "real.json", 2).has_value());
}

TEST(CostCache, ReplacesAnEmptyFile_AndOneOfAnEarlierFormat) {
  const test::ScratchFolder folder;
  for (const std::string content : {"", R"({"format":1,"machines":{}})"}) {
    const std::string file = folder / "costs.json";
    std::ofstream(file) << content;
    EXPECT_FALSE(load_costs(file, 2).has_value()) << content;
    save_costs(file, 2, some_costs(1e9));
    EXPECT_TRUE(load_costs(file, 2).has_value()) << content;
  }
}

TEST(CostCache, TouchesNothing_ThatIsNoRegularFile) {
  const test::ScratchFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& file : {pipe, testing::TempDir(), std::string("/dev/null")}) {
    EXPECT_FALSE(load_costs(file, 2).has_value()) << file;
    save_costs(file, 2, some_costs(1e9));
    EXPECT_FALSE(std::filesystem::is_regular_file(file)) << file;
  }
  save_costs(folder / "not/there/costs.json", 2, some_costs(1e9));
  EXPECT_FALSE(std::filesystem::exists(folder / "not"));
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
