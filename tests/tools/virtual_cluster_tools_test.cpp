// sinew-info plan and sinew-bench on clusters that need not be here.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

const std::string kDgx = TOPOLOGY_DATA "/dgx_h100_nccl.xml";

Outcome plan(Words arguments) {
  arguments.insert(arguments.begin(), {SINEW_INFO, "plan"});
  return run_program(arguments);
}

Outcome bench(Words arguments) {
  arguments.insert(arguments.begin(), SINEW_BENCH);
  return run_program(arguments);
}

std::string complaint(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  return outcome.err;
}

std::vector<json> lines_of(const Outcome& outcome) {
  std::vector<json> lines;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(VirtualPlan, UsesAllNicsOfAnImportedDgx_AcrossHosts) {
  const Outcome outcome = plan({"all_reduce", "64MiB", "--cluster", kDgx + "x4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("  takes  hierarchical over inproc"));
  EXPECT_THAT(outcome.out, HasSubstr("  loses  ring over inproc"));
  EXPECT_THAT(outcome.out, HasSubstr("    place 3: gpu:3 with mlx5_5:1\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("    1. reduce_scatter by [a-z_]+ among the ranks of each host\n"
                                                  "    2. all_reduce by [a-z_]+ among equals of the 4 hosts\n"
                                                  "    3. all_gather by [a-z_]+ among the ranks of each host\n"));
  EXPECT_THAT(outcome.out, HasSubstr("across hosts each sends by 8 of 8 NICs: mlx5_0:1, mlx5_3:1, mlx5_4:1, mlx5_5:1, "
                                     "mlx5_6:1, mlx5_9:1, mlx5_10:1, mlx5_11:1\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("nic out +32 of 32 +used"));
}

TEST(VirtualPlan, IsJsonThatCanBeRead) {
  const Outcome outcome = plan({"all_gather", "1MiB", "--cluster", "xeon-2s:3+5", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json found = json::parse(outcome.out);
  EXPECT_EQ(found.at("ranks"), 8);
  EXPECT_EQ(found.at("nics"), json({"eth0", "eth1"}));
  EXPECT_EQ(found.at("seats").size(), 5U);
  EXPECT_EQ(found.at("nics_used").size(), 2U);
  EXPECT_GE(found.at("stages").size(), 1U);
  EXPECT_FALSE(found.at("candidates").empty());
}

TEST(VirtualPlan, IsOfGpuMemory_WithDevice) {
  const Outcome outcome = plan({"all_reduce", "64MiB", "--device", "--cluster", kDgx + "x2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("device memory) on 16 ranks"));
  EXPECT_THAT(outcome.out, HasSubstr("  takes  nccl over nccl"));
  EXPECT_THAT(outcome.out, HasSubstr("expected: NVLSTree, Simple"));
  EXPECT_THAT(outcome.out, HasSubstr("  loses  staged over inproc"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("stages:"))) << "NCCL runs none of sinew's";
  const json found = json::parse(plan({"all_reduce", "64MiB", "--device", "--cluster", "dgx-a100x1", "--json"}).out);
  EXPECT_EQ(found.at("candidates").at(0).at("algorithm"), "nccl");
  EXPECT_EQ(found.at("candidates").at(0).at("source"), "catalog");
}

TEST(VirtualPlan, SaysWhyThereIsNoGpuMemory_OfAMachineWithoutGpus) {
  EXPECT_EQ(complaint(plan({"all_reduce", "1MiB", "--device", "--cluster", "xeon-2sx2"})),
            "sinew-info: 'xeon-2sx2': expected a machine with GPUs, for plans of their memory\n");
}

TEST(VirtualBench, PredictsForGpuMemory_AndRunsNothing) {
  const Outcome outcome = bench({"all_reduce", "--cluster", "dgx-h100x2", "--device", "cuda", "-b", "1MiB", "-e",
                                 "1GiB", "-f", "32", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<json> lines = lines_of(outcome);
  ASSERT_EQ(lines.size(), 3U);
  for (const json& line : lines) {
    EXPECT_EQ(line.at("algorithm"), "nccl") << line;
    EXPECT_EQ(line.at("device"), true);
    EXPECT_EQ(line.at("imagined"), "dgx-h100x2");
    EXPECT_GT(line.at("predicted_us"), 10);
    for (const char* name : {"time_us", "busbw_GBps", "wrong"}) EXPECT_TRUE(line.at(name).is_null()) << name;
  }
  const Outcome table = bench({"all_gather", "--cluster", "dgx-a100x1", "--device", "-b", "64MiB", "-e", "64MiB"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("its GPUs are not here: nothing is run"));
  EXPECT_THAT(table.out, testing::ContainsRegex("nccl@nccl +N/A +N/A +[0-9.]+ +N/A"));
}

TEST(VirtualBench, RejectsTimesOfGpusThatAreNotThere) {
  const Words words{"all_reduce", "--cluster", "dgx-h100x2", "--device"};
  const auto with = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return complaint(bench(all));
  };
  EXPECT_THAT(with({"-n", "5"}), HasSubstr("-n: expected 0 with --device and --cluster"));
  EXPECT_THAT(with({"rocm"}), HasSubstr("--device: 'rocm': expected cuda, or nothing"));
  EXPECT_THAT(complaint(bench({"all_reduce", "--cluster", "xeon-2sx2", "--device"})),
              HasSubstr("expected a machine with GPUs"));
}

/// A leaf of two hosts has 16 NICs of 50 GB/s below it, and of oversubscription 4 what four of them carry above.
TEST(VirtualPlan, KnowsLeavesAndSpine_OfAFatTree) {
  const Words words = {"all_reduce", "64MiB", "--cluster", kDgx + "x4", "--network", "fat_tree"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    more.emplace_back("--json");
    const Outcome outcome = plan(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json even = with({"--hosts-per-leaf", "2"});
  const json narrow = with({"--hosts-per-leaf", "2", "--oversubscription", "16"});
  EXPECT_EQ(narrow.at("network"), "fat_tree");
  EXPECT_EQ(narrow.at("hosts_per_leaf"), 2);
  EXPECT_EQ(narrow.at("oversubscription"), 16);
  EXPECT_GT(narrow.at("simulated_us"), even.at("simulated_us"));
  const auto leaf_up = [](const json& found) {
    for (const json& load : found.at("links")) {
      if (load.at("links") == "leaf up") return load;
    }
    return json();
  };
  EXPECT_EQ(leaf_up(even).at("count"), 2);
  EXPECT_GT(leaf_up(even).at("bytes"), 0);
}

/// Of 64 MiB each NIC sends twice three quarters of its eighth: 12 MiB in 252 us at 50 GB/s.
TEST(VirtualPlan, SaysWhatTheSimulatorMakesOfIt) {
  const Words words = {"all_reduce", "64MiB", "--cluster", kDgx + "x4"};
  const Outcome text = plan(words);
  EXPECT_THAT(text.out, testing::ContainsRegex("  simulated: [0-9.]+ us in [0-9]+ segments, [0-9]+ at a time; busiest: "
                                               "[a-z0-9 ]+, [0-9.]+ % of that time\n"));
  Words scripted = words;
  scripted.emplace_back("--json");
  const json found = json::parse(plan(scripted).out);
  EXPECT_GT(found.at("simulated_us"), 252);
  const double predicted = found.at("candidates").at(0).at("predicted_us");
  EXPECT_LT(found.at("simulated_us"), 3 * predicted);
  const bool far = found.at("simulated_us") > 1.25 * predicted;
  EXPECT_EQ(text.out.find("times what is predicted above") != std::string::npos, far);
  EXPECT_GT(found.at("segments"), 1);
  const Outcome local = plan({"all_to_allv", "1MiB", "--cluster", "xeon-2sx2", "--json"});
  ASSERT_EQ(local.exit_code, 0) << local.err;
  EXPECT_FALSE(json::parse(local.out).contains("simulated_us"));  // counts that only each rank knows
}

TEST(VirtualPlan, HasNothingAcross_WhereThereIsOneHost) {
  const Outcome outcome = plan({"all_reduce", "1MiB", "--cluster", kDgx});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("  one host: nothing leaves it; "));
}

TEST(VirtualTools, EndWithTwoAndOneLine_WhenTheClusterIsNone) {
  const std::string broken = testing::TempDir() + "sinew-broken-cluster.xml";
  std::ofstream(broken) << "<system version=\"1\">\n<cpu/></system>\n";
  const auto both = [](const std::string& cluster) {
    const std::string info = complaint(plan({"all_reduce", "1MiB", "--cluster", cluster}));
    EXPECT_EQ(info.substr(info.find(':')), [&] {
      const std::string other = complaint(bench({"all_reduce", "--cluster", cluster}));
      return other.substr(other.find(':'));
    }());
    return info;
  };
  EXPECT_THAT(both("dgx-9x2"),
              HasSubstr("'dgx-9': expected a file that can be read, or one of the machines dgx-a100, "));
  EXPECT_THAT(both("dgx-h100"), HasSubstr("such as dgx-h100x8"));
  EXPECT_THAT(both("dgx-h100x0"), HasSubstr("hosts 0: expected 1 at least"));
  EXPECT_THAT(both("xeon-2s:65+64"), HasSubstr("has 129 ranks: expected 128 at most"));
  EXPECT_EQ(both(broken + "x2"), "sinew-info: " + broken + ":2: <cpu>: expected an attribute numaid\n");
  EXPECT_THAT(complaint(plan({"all_reduce", "8", "--cluster", "dgx-h100x2", "-n", "4"})), HasSubstr("-n 4: --cluster"));
  EXPECT_THAT(complaint(bench({"all_reduce", "--cluster", "xeon-2sx2", "--transport", "shm"})),
              HasSubstr("--cluster: expected no --peer, --transport or --registered"));
  const Words alone = {"all_reduce", "--network", "fat_tree"};
  const Words torus = {"all_reduce", "--cluster", "xeon-2sx2", "--network", "torus"};
  EXPECT_THAT(complaint(plan(alone)), HasSubstr("--network requires --cluster"));
  EXPECT_THAT(complaint(bench(alone)), HasSubstr("--network requires --cluster"));
  EXPECT_THAT(complaint(plan(torus)), HasSubstr("rail_optimised"));
  EXPECT_THAT(complaint(bench(torus)), HasSubstr("rail_optimised"));
  const Outcome in_a_job =
      run_program({SINEW_BENCH, "all_reduce", "--cluster", "xeon-2sx2"}, {"WORLD_SIZE=1", "RANK=0"});
  EXPECT_THAT(complaint(in_a_job), HasSubstr("--cluster: expected no launcher"));
  const std::vector<std::string> flux = {"FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=4"};
  const std::vector<std::string> on_cluster = {SINEW_INFO, "plan", "all_reduce", "1MiB", "--cluster", "xeon-2sx2"};
  EXPECT_THAT(complaint(run_program(on_cluster, flux)), HasSubstr("SINEW_ALONE=1"));
  EXPECT_EQ(run_program(on_cluster, {flux[0], flux[1], "SINEW_ALONE=1"}).exit_code, 0);
}

TEST(VirtualBench, RunsSixtyFourRanks_AndCountsWhatTheSimulatorSays) {
  const Outcome outcome = bench(
      {"all_reduce", "--cluster", "dgx-h100x8", "-n", "11", "-b", "64KiB", "-e", "1MiB", "-f", "16", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::vector<json> lines = lines_of(outcome);
  ASSERT_EQ(lines.size(), 2U);
  for (const json& line : lines) {
    EXPECT_EQ(line.at("imagined"), "dgx-h100x8");
    EXPECT_EQ(line.at("ranks"), 64);
    EXPECT_EQ(line.at("hosts"), 8);
    EXPECT_EQ(line.at("transport"), "inproc");
    EXPECT_EQ(line.at("wrong"), 0);
    for (const json& load : line.at("links")) {
      EXPECT_EQ(load.at("bytes"), load.at("simulated_bytes")) << load;
      EXPECT_EQ(load.at("busiest_bytes"), load.at("simulated_busiest_bytes")) << load;
      if (load.at("links") == "nic out") {
        EXPECT_EQ(load.at("used"), 64);
      }
    }
    EXPECT_GE(line.at("links").size(), 4U);
  }
}

/// What counts as passing the spine is what the simulator of the same network says.
TEST(VirtualBench, CountsWhatPassesTheSpine) {
  const Outcome outcome =
      bench({"all_reduce", "--cluster", "xeon-2sx4", "--network", "fat_tree", "--hosts-per-leaf", "2",
             "--oversubscription", "2", "-n", "11", "-b", "64KiB", "-e", "64KiB", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const json line = lines_of(outcome).front();
  EXPECT_EQ(line.at("network"), "fat_tree");
  EXPECT_EQ(line.at("hosts_per_leaf"), 2);
  EXPECT_EQ(line.at("oversubscription"), 2);
  const json& links = line.at("links");
  const auto up = std::ranges::find_if(links, [](const json& load) { return load.at("links") == "leaf up"; });
  ASSERT_NE(up, links.end());
  EXPECT_GT(up->at("bytes"), 0);
  EXPECT_EQ(up->at("bytes"), up->at("simulated_bytes"));
}

TEST(VirtualBench, SaysThatItIsVirtual_AboveTheTable) {
  const Outcome outcome = bench({"all_to_all", "--cluster", "xeon-2s:3+5", "-n", "11", "-b", "64KiB", "-e", "64KiB"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("# all_to_all on 8 ranks, 2 hosts, "));
  EXPECT_THAT(
      outcome.out,
      HasSubstr(
          "# virtual cluster: xeon-2s:3+5, one_switch; times are those of 8 threads here, predictions the cluster's"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("# +4 +nic out +counted [0-9]+ bytes by 4 links"));
  EXPECT_THAT(outcome.out, HasSubstr("; simulated: the same\n"));
}

}  // namespace
}  // namespace sinew::test
