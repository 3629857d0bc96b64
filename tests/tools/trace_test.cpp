#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

// sinew-info trace over jobs that ended well and otherwise.
namespace sinew::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int kRanks = 3;

/// A job in which rank 1 is late for each of 20 sums, with its logs.
class LateJob {
 public:
  explicit LateJob(const std::vector<std::string>& arguments = {}, const std::vector<std::string>& environment = {}) {
    std::vector<std::string> command{SINEW_RUN, "-n", std::to_string(kRanks), LATE_RANK};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::vector<std::string> all{"SINEW_TRACE=" + folder(), "SINEW_TIMEOUT=60s"};
    all.insert(all.end(), environment.begin(), environment.end());
    outcome = run_program(command, all);
  }
  std::string folder() const { return folder_ / "."; }
  Outcome trace(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), {SINEW_INFO, "trace", folder()});
    return run_program(arguments);
  }

  Outcome outcome;

 private:
  ScratchFolder folder_;
};

json row_of(const json& job, const std::string& collective) {
  for (const json& communicator : job.at("communicators")) {
    for (const json& row : communicator.at("calls")) {
      if (row.at("collective") == collective && row.at("bytes") == (collective == "all_reduce" ? 4000 : 1)) return row;
    }
  }
  return {};
}

TEST(Trace, NamesTheRankThatIsLate) {
  const LateJob job;
  ASSERT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
  const Outcome text = job.trace();
  EXPECT_EQ(text.exit_code, 0) << text.out << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("generation 0"), HasSubstr("3 ranks"), HasSubstr("one clock"),
                              ContainsRegex("all_reduce +f32 +4000 +20 .*rank 1 in 100%")));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("never completed")));

  const json found = json::parse(job.trace({"--json"}).out).at(0);
  EXPECT_EQ(found.at("ranks"), kRanks);
  EXPECT_EQ(found.at("missing").size(), 0U);
  const json sum = row_of(found, "all_reduce");
  EXPECT_EQ(sum.at("judged"), 20);
  EXPECT_EQ(sum.at("last_rank"), 1);
  EXPECT_EQ(sum.at("last_calls"), 20);
  EXPECT_GT(sum.at("time_us"), 0);
  EXPECT_GT(sum.at("busbw_GBps"), 0);
  EXPECT_GT(sum.at("predicted_us"), 0);
  EXPECT_EQ(row_of(found, "send").at("calls"), 20 * (kRanks - 1));
}

TEST(Trace, WritesEveryCallForChrome) {
  const LateJob job;
  ASSERT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
  const std::string file = job.folder() + "/calls.json";
  ASSERT_EQ(job.trace({"--chrome", file}).exit_code, 0);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  const json events = json::parse(text.str()).at("traceEvents");
  std::map<int, int> sums;
  std::map<std::pair<int, int>, double> free;
  std::set<int> named;
  for (const json& e : events) {
    if (e.at("ph") == "M" && e.at("name") == "process_name") named.insert(e.at("pid").get<int>());
    if (e.at("ph") != "X") continue;
    const std::pair<int, int> thread{e.at("pid"), e.at("tid")};
    EXPECT_GE(e.at("ts").get<double>() + 0.001, free[thread]) << "events of a thread do not overlap: " << e;
    free[thread] = e.at("ts").get<double>() + e.at("dur").get<double>();
    if (e.at("name") == "all_reduce" && e.at("args").at("bytes") == 4000) ++sums[thread.first];
    EXPECT_EQ(e.at("args").at("outcome"), "Ok");
  }
  EXPECT_EQ(named, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(sums, (std::map<int, int>{{0, 20}, {1, 20}, {2, 20}}));
}

TEST(Trace, TellsOfAJobThatDied) {
  const LateJob job({"--die"});
  EXPECT_NE(job.outcome.exit_code, 0);
  const Outcome text = job.trace();
  EXPECT_LE(text.exit_code, 1)
      << "1 where the launcher was faster than the others' failure, whose call never ends then";
  EXPECT_THAT(text.out, AllOf(ContainsRegex("all_reduce +f32 +4000 +"), HasSubstr("rank 1 in 100%"),
                              HasSubstr("still running, or ended before the World did")));
  EXPECT_EQ(row_of(json::parse(job.trace({"--json"}).out).at(0), "all_reduce").at("judged"), 19);
}

TEST(Trace, NamesRanksWithoutALog_AndLogsThatAreNone) {
  const LateJob job;
  std::filesystem::remove(job.folder() + "/sinew-0-rank-1.calls");
  std::ofstream(job.folder() + "/sinew-0-rank-2.calls") << "nonsense";
  const Outcome text = job.trace();
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("ranks 1, 2 of 3: no log"));
  EXPECT_THAT(text.err, HasSubstr("sinew-info: left out: "));
}

TEST(Trace, SaysWhatItExpected) {
  const ScratchFolder folder;
  const Outcome none = run_program({SINEW_INFO, "trace", folder / "."});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("has no logs of calls; expected sinew-GENERATION-rank-RANK.calls"));
  const Outcome absent = run_program({SINEW_INFO, "trace", folder / "nothing"});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("No such file or directory"));
  const Outcome help = run_program({SINEW_INFO, "trace", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--chrome"), HasSubstr("which rank came last most often")));
}

}  // namespace
}  // namespace sinew::test
