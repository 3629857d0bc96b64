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
  EXPECT_THAT(keys_of(report), ElementsAre("ok", "version", "ranks", "hosts", "findings", "links"));
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
  const Outcome descriptors = run_program({"sh", "-c", "ulimit -Sn 40; exec " SINEW_INFO " doctor --json"});
  EXPECT_EQ(descriptors.exit_code, 1) << descriptors.err;
  const Json report = Json::parse(descriptors.out);
  expect_keys(report);
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at("findings").at(0).at("what"), "descriptors");
  EXPECT_THAT(report.at("findings").at(0).at("cure").get<std::string>(), HasSubstr("ulimit -n "));
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
  EXPECT_THAT(o.out, AllOf(HasSubstr("no transport is called 'smh'"), HasSubstr("[0] code 1"), HasSubstr("[1] code 1"),
                           HasSubstr("[2] code 1")));
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
