#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>

#include "run_job.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// What docs/using.md promises to scripts.
void expect_keys(const Json& report) {
  EXPECT_THAT(keys_of(report), ElementsAre("ok", "version", "ranks", "hosts", "first_ranks", "findings", "links"));
  for (const Json& finding : report.at("findings")) {
    EXPECT_THAT(keys_of(finding), ElementsAre("severity", "what", "found", "cure", "hosts"));
    EXPECT_THAT(finding.at("severity").get<std::string>(), AnyOf("ok", "warns", "fails"));
    EXPECT_EQ(finding.at("cure") == "", finding.at("severity") == "ok") << finding;
  }
  for (const Json& link : report.at("links")) {
    EXPECT_THAT(keys_of(link),
                ElementsAre("from", "to", "from_interface", "to_interface", "from_address", "to_address", "routed",
                            "mtu_bytes", "state", "why", "tries", "round_trip_us", "bytes_per_s", "passing_bytes"));
  }
}

TEST(SinewInfoDoctor, ExaminesThisHostAlone) {
  const Outcome o = run_program({SINEW_INFO, "doctor"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_EQ(o.err, "");
  for (const char* what : {"memory: ", "processes: ", "descriptors: ", "cores: ", "direct reads: ", "huge pages: ",
                           "congestion control: ", "version: sinew ", "variables: ", "transports: ", "link: "}) {
    EXPECT_THAT(o.out, HasSubstr(what));
  }
  EXPECT_THAT(o.out, HasSubstr("\nok: 0 would fail a job, "));
}

TEST(SinewInfoDoctor, PrintsJsonThatCanBeRead) {
  const Outcome o = run_program({SINEW_INFO, "doctor", "--json"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  const Json report = Json::parse(o.out);
  EXPECT_EQ(report.at("ok"), true);
  EXPECT_EQ(report.at("ranks"), 1);
  EXPECT_EQ(report.at("hosts").size(), 1u);
  EXPECT_GE(report.at("findings").size(), 10u);
  expect_keys(report);
  for (const Json& link : report.at("links")) {
    EXPECT_EQ(link.at("state"), "carries") << link;
    EXPECT_GT(link.at("bytes_per_s"), 0) << link;
    EXPECT_TRUE(link.at("passing_bytes").is_null()) << link;
  }
  EXPECT_GE(report.at("links").size(), 1u) << "loopback, at least";
}

TEST(SinewInfoDoctor, EndsWithOneAndACure_WhereAJobWouldFail) {
  const Outcome memory = run_program({SINEW_INFO, "doctor", "--memory", "1000000GiB"});
  EXPECT_EQ(memory.exit_code, 1);
  EXPECT_THAT(memory.out,
              AllOf(HasSubstr("fails  memory: "), HasSubstr("\n       cure: "), HasSubstr("\nfails: 1 would")));
  EXPECT_THAT(memory.out, HasSubstr("ok     world: not tried, as these fail: memory\n"));
  const Json report = Json::parse(run_program({SINEW_INFO, "doctor", "--memory", "1000000GiB", "--json"}).out);
  expect_keys(report);
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at("findings").at(0).at("what"), "memory");
  EXPECT_THAT(report.at("findings").at(0).at("cure").get<std::string>(), HasSubstr("fewer ranks"));
}

/// What ranks may do with so many descriptors is what the world's check finds.
TEST(SinewInfoDoctor, WarnsOfFewDescriptors_AndFailsWhereRanksCannotMeet) {
  const std::string doctor = SINEW_INFO " doctor";
  const Outcome few = run_script(2, "ulimit -Sn 64; exec " + doctor);
  EXPECT_EQ(few.exit_code, 0) << few.out << few.err;
  EXPECT_THAT(few.out, AllOf(HasSubstr("warns  descriptors: 64 for each rank (ulimit -n), which may need "),
                             HasSubstr("cure: ulimit -n "), HasSubstr("ok     world: the ranks meet")));
  const Outcome too_few = run_script(32, "ulimit -Sn 32; exec " + doctor, {"--on-failure", "continue"});
  EXPECT_EQ(too_few.exit_code, 1) << too_few.out << too_few.err;
  EXPECT_THAT(too_few.out,
              AllOf(HasSubstr("fails  descriptors: 32 for each rank (ulimit -n), 32 needed for the ranks of this host"),
                    HasSubstr("ok     world: not tried, as these fail: descriptors")));
}

/// Some that pass the check of the limit, and are too few for a World.
TEST(SinewInfoDoctor, FailsWithTheWorldsWords_WhereDescriptorsEnd) {
  const Outcome o = run_script(8, "ulimit -Sn 20; exec " SINEW_INFO " doctor", {"--on-failure", "continue"});
  EXPECT_EQ(o.exit_code, 1) << o.out << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("warns  descriptors: "), HasSubstr("fails  world: the ranks cannot form one: "),
                           HasSubstr("ulimit -n")));
}

/// The job's own calls are what the exit code speaks of.
TEST(SinewInfoDoctor, FailsWhereARuleLeavesNothingToRun) {
  const auto examined = [](const std::string& rules) {
    return run_program({"env", "SINEW_TUNE=" + rules, SINEW_RUN, "-n", "2", SINEW_INFO, "doctor"});
  };
  const Outcome gpu = examined("all_gather:0-:ring,all_reduce:1KiB-:ring@nccl");
  EXPECT_EQ(gpu.exit_code, 1) << gpu.out << gpu.err;
  EXPECT_THAT(gpu.out, AllOf(HasSubstr("fails  world: the ranks form one, and refuse calls: "
                                       "all_reduce(f32, sum, count 256): nothing can run it on these 2 ranks under the "
                                       "user's rule all_reduce:1024-:ring@nccl"),
                             HasSubstr("other rules in SINEW_TUNE"), HasSubstr("fails: 1 would fail a job")));
  const Outcome other = examined("all_reduce:0-:pairwise");
  EXPECT_EQ(other.exit_code, 1) << other.out << other.err;
  EXPECT_THAT(other.out, HasSubstr("all_reduce has no algorithm 'pairwise'; it has "));
  const Outcome every = examined("*:1KiB-:*@nccl");
  EXPECT_EQ(every.exit_code, 1) << every.out << every.err;
  EXPECT_THAT(every.out, HasSubstr("refuse calls: all_reduce("));
}

TEST(SinewInfoDoctor, IsContentWithRulesThatLeaveSomething) {
  for (const char* rules : {"all_reduce:0-4KiB:recursive_doubling,*:1MiB-:*@shm",
                            "all_gather_v:3-:ring,gather_v:0-1KiB:*,all_to_all_v:0-:*", "*:1KiB-:ring",
                            "all_reduce:0-7:ring@nccl", "all_reduce:0-1KiB:ring,all_reduce:0-:ring@tcp", "send:0-:*"}) {
    const Outcome o =
        run_program({"env", std::string("SINEW_TUNE=") + rules, SINEW_RUN, "-n", "2", SINEW_INFO, "doctor"});
    EXPECT_EQ(o.exit_code, 0) << rules << "\n" << o.out << o.err;
  }
}

TEST(SinewInfoDoctor, WarnsOfAnInterfaceThatIsNotThere_AndTriesTheOthers) {
  const Outcome o = run_program({"env", "SINEW_INTERFACE=eth99", SINEW_INFO, "doctor"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("warns  interface: SINEW_INTERFACE=eth99: no interface of that name is up here"),
                           HasSubstr("tcp is left out"), HasSubstr("link: ")));
}

TEST(SinewInfoDoctor, CountsNoModuleThatIsLeftOut) {
  const Outcome o = run_program({"env", "SINEW_TRANSPORTS=shm,tcp", SINEW_INFO, "doctor"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, HasSubstr("ok     transports: modules that can be loaded: shm, tcp; "));
}

/// As docs/using.md shows it.
TEST(SinewInfoDoctor, PrintsJsonThatCanBeRead_UnderALauncher) {
  const Outcome o = run_program({SINEW_RUN, "--no-prefix", "-n", "2", SINEW_INFO, "doctor", "--json"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  const Json report = Json::parse(o.out);
  EXPECT_EQ(report.at("ranks"), 2);
  expect_keys(report);
}

TEST(SinewInfoDoctor, GivesTheSameCodeOnEveryRank_AndOnlyRank0Speaks) {
  const std::string doctor = SINEW_INFO " doctor";
  const Outcome well = run_script(3, doctor + "; echo code $?");
  EXPECT_EQ(well.exit_code, 0) << well.err;
  EXPECT_THAT(well.out, AllOf(HasSubstr("3 ranks on "), HasSubstr("[0] code 0"), HasSubstr("[1] code 0"),
                              HasSubstr("[2] code 0")));
  EXPECT_THAT(well.out, testing::Not(HasSubstr("[1] ok")));
  const Outcome ill = run_script(3, doctor + " --memory 1000000GiB; echo code $?");
  EXPECT_THAT(ill.out, AllOf(HasSubstr("for 3 ranks"), HasSubstr("[0] code 1"), HasSubstr("[1] code 1"),
                             HasSubstr("[2] code 1")));
}

TEST(SinewInfoDoctor, NamesTheRanksWhoseVariablesDiffer) {
  const Outcome o =
      run_script(2, "[ $RANK = 1 ] && export SINEW_TUNE=all_reduce:0-1KiB:ring; exec " SINEW_INFO " doctor",
                 {"--on-failure", "continue"});
  EXPECT_EQ(o.exit_code, 1) << o.out;
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("fails  variables: SINEW_TUNE differs: rank 0"), HasSubstr("all_reduce:0-1KiB:ring")));
}

TEST(SinewInfoDoctor, FormsAWorldWithTheVariablesThatAreSet) {
  const Outcome well = run_script(2, SINEW_INFO " doctor");
  EXPECT_THAT(well.out, HasSubstr("ok     world: the ranks meet and pass a barrier"));
  for (const auto& [variable, why] :
       {std::pair("SINEW_TRANSPORTS=smh", "smh"), std::pair("SINEW_TUNE=all_reduce:0-1KiB:nix", "nix"),
        std::pair("SINEW_TUNE_FILE=/nowhere/times.json", "/nowhere/times.json")}) {
    const Outcome o = run_program({"env", variable, SINEW_RUN, "-n", "2", SINEW_INFO, "doctor"});
    EXPECT_EQ(o.exit_code, 1) << o.out << o.err;
    EXPECT_THAT(o.out, AllOf(HasSubstr("fails  world: the ranks cannot form one: "), HasSubstr(why),
                             HasSubstr("\n[0] fails: 1 would fail a job")));
  }
}

/// Every rank comes to the end, and knows of the one.
TEST(SinewInfoDoctor, NamesWhatOneRankAloneFinds) {
  const Outcome o = run_script(3, "[ $RANK = 2 ] && export SINEW_TRANSPORTS=smh; " SINEW_INFO " doctor; echo code $?",
                               {"--on-failure", "continue"});
  EXPECT_THAT(o.out, AllOf(HasSubstr("transports 'smh' (SINEW_TRANSPORTS): no transport is called 'smh'"),
                           HasSubstr("[0] code 1"), HasSubstr("[1] code 1"), HasSubstr("[2] code 1")));
}

TEST(SinewInfoDoctor, TellsScriptsTheKeys_InItsHelp) {
  const Outcome o = run_program({SINEW_INFO, "doctor", "--help"});
  EXPECT_EQ(o.exit_code, 0);
  for (const char* key : {"findings", "severity", "cure", "links", "small_only", "round_trip_us", "passing_bytes"}) {
    EXPECT_THAT(o.out, HasSubstr(key));
  }
}

TEST(SinewInfoDoctor, EndsWithTwoAndOneLine_WhenInputIsBad) {
  const Outcome o = run_program({SINEW_INFO, "doctor", "--memory", "much"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
  EXPECT_EQ(o.out, "");
}

}  // namespace
}  // namespace sinew::test
