#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/selection/costs/cost_watch.hpp>
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
  costs.doubt = "it was noisy";
  costs.contradicted = "it took longer";
  costs.links_at_s["wire"] = 11111;
  costs.offloads_at_s = 11112;
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

TEST(Doubts, AreNone_AboutFreshQuietFinishedCosts) {
  MeasuredCosts costs = some_costs(1e9);
  costs.unfinished.clear();
  costs.doubt.clear();
  costs.contradicted.clear();
  const Doubts none = doubts_about(costs, costs.offloads_at_s + 60);
  EXPECT_EQ(none.text, "");
  EXPECT_FALSE(none.offloads);
  EXPECT_TRUE(none.links.empty());
}

TEST(Doubts, NameWhatIsNoisyOldUnfinishedOrContradicted) {
  const std::int64_t soon = 20'000;
  MeasuredCosts costs = some_costs(1e9);
  costs.unfinished.clear();
  costs.doubt.clear();
  costs.contradicted.clear();

  MeasuredCosts noisy = costs;
  noisy.doubt = "repetitions lay 31 % apart";
  EXPECT_EQ(doubts_about(noisy, soon).text, "repetitions lay 31 % apart");
  EXPECT_TRUE(doubts_about(noisy, soon).offloads);
  EXPECT_TRUE(doubts_about(noisy, soon).links.empty());

  MeasuredCosts contradicted = costs;
  contradicted.contradicted = "all_reduce took 9 us where 3 us were predicted";
  EXPECT_EQ(doubts_about(contradicted, soon).text, contradicted.contradicted);
  EXPECT_TRUE(doubts_about(contradicted, soon).offloads);

  MeasuredCosts unfinished = costs;
  unfinished.unfinished = {"other", "wire"};
  EXPECT_EQ(doubts_about(unfinished, soon).text, "no time was left to measure other, wire");
  EXPECT_EQ(doubts_about(unfinished, soon).links, (std::set<std::string>{"other", "wire"}));

  const std::int64_t late = 11'112 + 20 * 24 * 3600;
  EXPECT_EQ(doubts_about(costs, late).text, "measured 20 days ago");
  EXPECT_TRUE(doubts_about(costs, late).offloads);
  EXPECT_EQ(doubts_about(costs, late).links, (std::set<std::string>{"wire"}));
  costs.links_at_s["wire"] = late;
  EXPECT_TRUE(doubts_about(costs, late).links.empty()) << "this one is fresh";
}

std::map<std::uint64_t, SeenCalls> seen_calls(int kinds, double measured_by_predicted, int calls) {
  std::map<std::uint64_t, SeenCalls> seen;
  for (int k = 0; k < kinds; ++k)
    seen[static_cast<std::uint64_t>(k)] = {"all_reduce " + std::to_string(k), 1e-6 * (k + 1),
                                           1e-6 * (k + 1) * measured_by_predicted, calls};
  return seen;
}

TEST(Doubts, ComeFromCallsOfSeveralKinds_ThatAreFarOff) {
  EXPECT_EQ(contradiction_in({}), "");
  EXPECT_EQ(contradiction_in(seen_calls(8, 2.5, 20)), "");
  EXPECT_EQ(contradiction_in(seen_calls(2, 9, 20)), "") << "two kinds are too few";
  EXPECT_EQ(contradiction_in(seen_calls(8, 9, 7)), "") << "seven calls are too few";
  EXPECT_NE(contradiction_in(seen_calls(3, 0.2, 20)), "") << "much faster is wrong, too";
  auto mixed = seen_calls(3, 4, 20);
  EXPECT_EQ(contradiction_in(mixed),
            "all_reduce 0 took 4.00 us where 1.00 us were predicted, and 3 of 3 kinds of calls are 3 times off");
  for (int k = 10; k < 13; ++k) mixed[static_cast<std::uint64_t>(k)] = {"broadcast", 1e-6, 1e-6, 20};
  EXPECT_EQ(contradiction_in(mixed), "") << "half of the kinds agree";
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
       {"{", "[]", "null", "a letter to my aunt", R"({"machines":{}})", R"({"format":4,"machines":7})",
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
