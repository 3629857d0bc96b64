// Modules that cannot be used, as the tools show them: a reason for each, and everything else goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using Words = std::vector<std::string>;

const Words kPlanted = {"SINEW_TRANSPORT_PATH=" PLANTED};

Outcome two_ranks(Words command) {
  command.insert(command.begin(), {SINEW_RUN, "-n", "2"});
  return run_program(command, kPlanted);
}

TEST(Modules, OwnNamesAreShown_OkOrWithAReason) {
  const Outcome outcome = run_program({SINEW_INFO, "transports", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<std::string> names;
  for (const nlohmann::json& row : nlohmann::json::parse(outcome.out)) {
    names.push_back(row.at("name"));
    EXPECT_TRUE(row.at("ok").get<bool>() || !row.at("reason").get<std::string>().empty()) << row;
  }
  EXPECT_EQ(names, (Words{"inproc", "shm", "tcp", "ucx", "ofi", "cuda_ipc", "nccl"}));
}

TEST(Modules, BadOnesAreShownWithTheReason) {
  const Outcome outcome = run_program({SINEW_INFO, "transports"}, kPlanted);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* row :
       {"shm +ok ", "fine +ok ", "impostor +no .* calls itself 'fine'", "lonely +no .*libplanted_answer.so",
        "no_entry +no .*no sinew_module_entry", "other_abi +no .*has ABI sinew-of-another-time, expected sinew-",
        "text +no +cannot be loaded: ", "thrower +no +thrown for a test",
        "number +no +.*threw something that is no std::exception", "empty +no +.*returned no fabric",
        "unwilling +no +made for a test"}) {
    EXPECT_THAT(outcome.out, ContainsRegex(std::string("\n") + row));
  }
}

TEST(Modules, JobGoesOnWithTheOthers) {
  for (const Words& only : {Words{}, {"--transport", "shm,text,thrower,number,empty,other_abi"}}) {
    Words command = {SINEW_CONFORMANCE, "--largest", "4KiB"};
    command.insert(command.end(), only.begin(), only.end());
    const Outcome outcome = two_ranks(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(" calls on 2 ranks, wrong 0"));
    const bool told = outcome.err.find("transport text, which was asked for, is left out: ") != std::string::npos;
    EXPECT_EQ(told, !only.empty()) << outcome.err;
  }
}

TEST(Modules, JobThatAsksForABadOneOnly_SaysWhyItCannotBe) {
  const Outcome outcome = two_ranks({SINEW_BENCH, "all_reduce", "-b", "8", "-e", "8", "--transport", "text"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("text: cannot be loaded: " PLANTED "/sinew_text.so"));
}

}  // namespace
}  // namespace sinew::test
