#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::HasSubstr;

Outcome sim(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SINEW_SIM);
  return run_program(arguments, {});
}

TEST(SinewSim, ShowsAlgorithmsSideBySide_TheFastestFirst) {
  const Outcome o = sim({"all_reduce", "64MiB", "--cluster", "dgx-h100x8", "--json"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_EQ(o.err, "");
  const auto json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json["ranks"], 64);
  EXPECT_EQ(json["bytes"], 64 << 20);
  std::vector<double> times;
  std::vector<std::string> names;
  for (const auto& way : json["algorithms"]) {
    names.push_back(way["algorithm"]);
    if (way.contains("time_us")) times.push_back(way["time_us"]);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"ring", "halving_doubling", "binomial", "hierarchical"}));
  EXPECT_GT(times.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(times));
}

/// 8 hosts, among which each rank sends 2 * 7/8 of its eighth over its own NIC of 50 GB/s.
TEST(SinewSim, SaysWhichLinkIsBusiest_AndWhoWasSimulated) {
  const Outcome o = sim({"all_reduce", "64MiB", "--cluster", "dgx-h100x8", "--algorithm", "hierarchical", "--json"});
  const auto json = nlohmann::json::parse(o.out);
  for (const auto& way : json["algorithms"]) {
    if (way["way"] != "direct inside hosts, ring across") continue;
    EXPECT_EQ(way["simulated_ranks"], 64);
    EXPECT_THAT(std::string(way["account"]), HasSubstr("every rank simulated"));
    const auto& most = way["loads"][0];
    EXPECT_EQ(most["links"], "nic out");
    EXPECT_DOUBLE_EQ(most["busiest_bytes"], 2 * 7 / 8.0 * (8 << 20));
    EXPECT_LE(most["utilisation"], 1);
    EXPECT_NEAR(most["utilisation"], 2 * 7 / 8.0 * (8 << 20) / 50e9 / (double(way["time_us"]) * 1e-6), 1e-9);
    return;
  }
  FAIL() << o.out << o.err;
}

TEST(SinewSim, PrintsATable) {
  const Outcome o = sim({"all_to_all", "1MiB", "--cluster", "dgx-a100x8", "--network", "fat_tree", "--hosts-per-leaf",
                         "4", "--oversubscription", "2"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_THAT(o.out, HasSubstr("all_to_all of 1MiB on dgx-a100x8: 64 ranks, fat_tree of 4 hosts per leaf, "
                               "oversubscription 2\n"));
  EXPECT_THAT(o.out, HasSubstr("\n  pairwise  "));
  EXPECT_THAT(o.out, HasSubstr(" of 64 ranks simulated, each for "));
}

TEST(SinewSim, TakesAMachineFromAFile_AndHostsThatAreUnequal) {
  const Outcome file =
      sim({"all_reduce", "64MiB", "--cluster", TOPOLOGY_DATA "/dgx_h100_nccl.xmlx8", "--algorithm", "ring", "--json"});
  const Outcome named = sim({"all_reduce", "64MiB", "--cluster", "dgx-h100x8", "--algorithm", "ring", "--json"});
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(nlohmann::json::parse(file.out)["assumed"].size(), 1U) << "memory of a GPU";
  EXPECT_EQ(nlohmann::json::parse(named.out)["assumed"].size(), 0U);
  const double from_file = nlohmann::json::parse(file.out)["algorithms"][0]["time_us"];
  EXPECT_NEAR(from_file, double(nlohmann::json::parse(named.out)["algorithms"][0]["time_us"]), 0.01 * from_file);
  const Outcome uneven = sim({"all_reduce", "1MiB", "--cluster", "xeon-2s:3+5", "--json"});
  ASSERT_EQ(uneven.exit_code, 0) << uneven.err;
  EXPECT_EQ(nlohmann::json::parse(uneven.out)["ranks"], 8);
}

/// A ring leaves each of four hosts of eight NICs by one.
TEST(SinewSim, SaysHowManyLinksAreUsed) {
  EXPECT_THAT(sim({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--algorithm", "ring"}).out,
              HasSubstr("% (4 of 32 used)\n"));
}

TEST(SinewSim, EndsWithTwoAndOneLine_WhenInputIsBad) {
  const auto complaint = [](const std::vector<std::string>& arguments) {
    const Outcome o = sim(arguments);
    EXPECT_EQ(o.exit_code, 2) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
    return o.err;
  };
  EXPECT_THAT(complaint({"all_reduce", "1MiB"}), HasSubstr("--cluster"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-1x4"}),
              HasSubstr("one of the machines dgx-a100, dgx-h100"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100"}), HasSubstr("such as dgx-h100x8"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x0"}), HasSubstr("hosts 0: expected 1 at least"));
  EXPECT_THAT(complaint({"all_reduce", "--cluster", "dgx-h100x4"}), HasSubstr("expected BYTES"));
  EXPECT_THAT(complaint({"all_gather", "8", "--cluster", "dgx-h100x4"}), HasSubstr("128B at least"));
  EXPECT_THAT(complaint({"sum", "1MiB", "--cluster", "dgx-h100x4"}), HasSubstr("one of all_reduce, all_gather"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--algorithm", "x"}),
              HasSubstr("'x': expected an algorithm of all_reduce, one of hierarchical, bidirectional_ring"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--network", "torus"}),
              HasSubstr("fat_tree"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--network", "fat_tree", "--oversubscription",
                         "inf"}),
              HasSubstr("oversubscription inf: expected a finite number"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--oversubscription", "2"}),
              HasSubstr("oversubscription 2: expected fat_tree or rail_optimised, which have leaves, not one_switch"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--network", "rail_optimised",
                         "--hosts-per-leaf", "2"}),
              HasSubstr("2 hosts per leaf: expected fat_tree"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x200000"}),
              HasSubstr("expected 1048576 ranks at most"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "/dev/zerox2"}), HasSubstr("64 MiB at most"));
  EXPECT_THAT(complaint({"all_reduce", "18446744073709551612", "--cluster", "xeon-2sx2"}),
              HasSubstr("more than the 9223372036854775807 bytes of an address space"));
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "dgx-h100x4", "--svg", ""}),
              HasSubstr("--svg: expected a value, found none"));
  const std::string file = testing::TempDir() + "/sinew-sim-one-file";
  EXPECT_THAT(complaint({"all_reduce", "1MiB", "--cluster", "xeon-2sx2", "--svg", file, "--trace", file}),
              HasSubstr("--svg and --trace: '" + file + "': expected two files"));
}

}  // namespace
}  // namespace sinew::test
