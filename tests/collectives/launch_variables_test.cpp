#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

LaunchVariables read(const Environment& environment) {
  return read_launch_variables([&](const char* name) -> std::optional<std::string> {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  });
}

/// The message of the Error{InvalidArgument} that reading ends with.
std::string complaint(const Environment& environment) {
  try {
    read(environment);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "no complaint";
}

const Environment kMaster = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
const Environment kPmix = {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "job.1"}};
const Environment kPmi1 = {
    {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "6"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "4"}};

const Environment kSrun = {{"SLURM_JOB_ID", "4100"},
                           {"SLURM_STEP_ID", "1"},
                           {"SLURM_PROCID", "2"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_STEP_NUM_TASKS", "3"},
                           {"SLURM_STEP_NODELIST", "gpu[08-09]"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

TEST(LaunchVariables, Alone_WhenNothingIsSet) {
  const LaunchVariables v = read({});
  EXPECT_EQ(v.kind, LaunchKind::Alone);
  EXPECT_EQ(v.ranks, 1);
}

TEST(LaunchVariables, Master_IsReadWhole) {
  const LaunchVariables v = read(with(kMaster, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"SINEW_JOB", "j"}}));
  EXPECT_EQ(v.kind, LaunchKind::Variables);
  EXPECT_EQ(v.rank, 1);
  EXPECT_EQ(v.ranks, 4);
  EXPECT_EQ(v.local_rank, 1);
  EXPECT_EQ(v.local_ranks, 2);
  EXPECT_EQ(v.master_host, "node0");
  EXPECT_EQ(v.master_port, 29500);
  EXPECT_EQ(v.job, "j");
  EXPECT_FALSE(v.port_taken);
  const Environment agent = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_TRUE(read(with(kMaster, agent)).port_taken);
  EXPECT_THAT(complaint(with(with(kMaster, agent), {{"MASTER_PORT", "65535"}})), HasSubstr("expected 65534 at most"));
}

TEST(LaunchVariables, Master_ComesBeforeTheOuterLaunchers) {
  EXPECT_EQ(read(with(with(kMaster, kPmix), kPmi1)).kind, LaunchKind::Variables);
  EXPECT_EQ(read(with(kPmix, kPmi1)).kind, LaunchKind::Pmix);
  EXPECT_EQ(read(kPmi1).kind, LaunchKind::Pmi1);
  EXPECT_EQ(read(kPmi1).pmi_descriptor, 6);
}

TEST(LaunchVariables, MasterAddress_AloneSaysNothingBeneathALauncher) {
  const Environment address = {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(read(with(kPmix, address)).kind, LaunchKind::Pmix);
  EXPECT_EQ(read(with(kPmi1, address)).kind, LaunchKind::Pmi1);
  EXPECT_THAT(complaint(address),
              AllOf(HasSubstr("MASTER_ADDR, MASTER_PORT set"), HasSubstr("RANK, WORLD_SIZE missing")));
}

TEST(LaunchVariables, Srun_IsReadWhole) {
  const LaunchVariables v = read(kSrun);
  EXPECT_EQ(v.kind, LaunchKind::Slurm);
  EXPECT_EQ(v.rank, 2);
  EXPECT_EQ(v.ranks, 3);
  EXPECT_EQ(v.local_rank, 0);
  EXPECT_EQ(v.local_ranks, 1);
  EXPECT_EQ(v.master_host, "gpu08");
  EXPECT_EQ(v.master_port, 61440 + (4100 + 257) % 4096);
  EXPECT_EQ(v.job, "slurm-4100.1");
}

TEST(LaunchVariables, Srun_ComesLast_AndHearsWhatTheUserSaysOfTheMaster) {
  EXPECT_EQ(read(with(kSrun, kMaster)).kind, LaunchKind::Variables);
  EXPECT_EQ(read(with(kSrun, kPmix)).kind, LaunchKind::Pmix);
  EXPECT_EQ(read(with(kSrun, kPmi1)).kind, LaunchKind::Pmi1);
  const LaunchVariables v = read(with(kSrun, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}, {"SINEW_JOB", "j"}}));
  EXPECT_EQ(v.kind, LaunchKind::Slurm);
  EXPECT_EQ(v.master_host, "node0");
  EXPECT_EQ(v.master_port, 29500);
  EXPECT_EQ(v.job, "j");
}

TEST(LaunchVariables, HalfSet_NamesWhatIsSetAndWhatIsMissing) {
  for (const auto& [name, value] : kMaster) {
    Environment half = kMaster;
    half.erase(name);
    EXPECT_THAT(complaint(half), HasSubstr("but " + name + " missing"));
  }
  EXPECT_THAT(complaint({{"PMIX_RANK", "0"}}), HasSubstr("PMIX_NAMESPACE missing"));
  EXPECT_THAT(complaint({{"PMI_FD", "5"}, {"PMI_SIZE", "1"}}), HasSubstr("PMI_RANK missing"));
}

TEST(LaunchVariables, Contradictions_ShowBothValues) {
  EXPECT_THAT(complaint(with(kMaster, {{"RANK", "4"}})), AllOf(HasSubstr("RANK=4"), HasSubstr("WORLD_SIZE=4")));
  EXPECT_THAT(complaint(with(kMaster, {{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}})), HasSubstr("LOCAL_RANK=2"));
  EXPECT_THAT(complaint(with(kMaster, {{"LOCAL_WORLD_SIZE", "5"}})), HasSubstr("exceeds the 4 ranks"));
  EXPECT_EQ(complaint(with(kMaster, {{"LOCAL_RANK", "4"}})),
            "LOCAL_RANK=4 contradicts WORLD_SIZE=4: expected a number below 4, the rank's number on its host");
  EXPECT_THAT(complaint(with(kPmi1, {{"PMI_RANK", "9"}})), HasSubstr("PMI_SIZE=4"));
}

/// sinew numbers the ranks of a host itself.
TEST(LaunchVariables, LocalRanks_MayBeInAnotherOrderThanRanks) {
  EXPECT_EQ(read(with(kMaster, {{"RANK", "0"}, {"LOCAL_RANK", "1"}})).local_rank, 1);
  EXPECT_EQ(read(with(kMaster, {{"RANK", "0"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}})).local_rank, 1);
}

TEST(LaunchVariables, Numbers_NameTheSmallestAndTheLargest) {
  EXPECT_EQ(complaint(with(kMaster, {{"WORLD_SIZE", "99999999999"}})),
            "WORLD_SIZE=99999999999: expected a whole number, 1 to 2147483647");
  EXPECT_EQ(complaint(with(kMaster, {{"RANK", "-1"}})), "RANK=-1: expected a whole number, 0 to 2147483647");
  EXPECT_EQ(complaint(with(kMaster, {{"MASTER_PORT", "65536"}})),
            "MASTER_PORT=65536: expected a whole number, 1 to 65535");
}

TEST(LaunchVariables, ElasticLimits_AreTwoNumbersInOrder) {
  const Environment elastic = {{"SINEW_ELASTIC", "2:8"}, {"SINEW_JOB", "j"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(read(elastic).least_ranks, 2);
  EXPECT_EQ(read(elastic).most_ranks, 8);
  for (const char* wrong : {"9:1", "2", "2:8:9", ":", "0:1", "a:b", "1:99999999999"}) {
    EXPECT_EQ(complaint(with(elastic, {{"SINEW_ELASTIC", wrong}})),
              std::string("SINEW_ELASTIC=") + wrong +
                  ": expected MIN:MAX in ranks, 1 to 2147483647 and MIN not above MAX, such as 2:8");
  }
}

TEST(LaunchVariables, ALongValue_IsShownInPart) {
  const std::string text(500, 'x');
  EXPECT_EQ(complaint(with(kMaster, {{"WORLD_SIZE", text}})),
            "WORLD_SIZE=" + text.substr(0, 60) + ".. (500 bytes): expected a whole number, 1 to 2147483647");
}

TEST(LaunchVariables, MasterAddress_MayBeIpv6_InBracketsOrNot) {
  for (const char* address : {"[::1]", "::1", "[fd00::7]", "fd00::7", "[fe80::1%lo]"}) {
    const std::string text = address;
    const LaunchVariables v = read(with(kMaster, {{"MASTER_ADDR", text}}));
    EXPECT_EQ(v.master_host, text.front() == '[' ? text.substr(1, text.size() - 2) : text);
    EXPECT_EQ(v.master_said, "MASTER_ADDR=" + text);
    EXPECT_EQ(read(with(kSrun, {{"MASTER_ADDR", text}})).master_host, v.master_host);
  }
}

TEST(LaunchVariables, MasterAddress_IsShownWhereItIsNone) {
  for (const std::string bad : {"", "[]", "[::1", "::1]", "[::1]:29500", "127.0.0.1:29500", "node0:29500", "[node0]",
                                "[10.0.0.1]", "[[::1]]", "fd00::g", "tcp://node0", "node0 node1", "1:2:3"}) {
    for (const Environment& base : {kMaster, kSrun}) {
      EXPECT_THAT(
          complaint(with(base, {{"MASTER_ADDR", bad}})),
          AllOf(HasSubstr("MASTER_ADDR=" + bad + ": expected a host name or an address"), HasSubstr("[fd00::1]")));
    }
  }
}

TEST(LaunchVariables, Numbers_AreCheckedToTheLastCharacter) {
  for (const char* bad : {"", "x", "1x", "-1", "1.0", " 1", "99999999999"}) {
    EXPECT_THAT(complaint(with(kMaster, {{"RANK", bad}})), HasSubstr(std::string("RANK=") + bad));
  }
  for (const char* bad : {"0", "65536", "http"}) {
    EXPECT_THAT(complaint(with(kMaster, {{"MASTER_PORT", bad}})), HasSubstr("1 to 65535"));
  }
  EXPECT_THAT(complaint(with(kMaster, {{"WORLD_SIZE", "0"}})), HasSubstr("1 to 2147483647"));
}

}  // namespace
}  // namespace sinew
