// Every launcher whose variables sinew knows: what a process does that finds them in its environment.
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

Lookup lookup_in(const Environment& environment) {
  return [&environment](const char* name) -> std::optional<std::string> {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  };
}

/// What reading an environment must lead to: a kind with rank and ranks, or an Error whose text holds `says`.
struct Expected {
  LaunchKind kind = LaunchKind::Alone;
  int rank = 0;
  int ranks = 1;
  std::optional<Code> error = std::nullopt;
  std::vector<std::string> says = {};
};

struct LauncherCase {
  const char* name;
  Environment variables;
  Expected expected;
};

void PrintTo(const LauncherCase& c, std::ostream* out) { *out << c.name; }

Expected meets(int rank, int ranks, LaunchKind kind = LaunchKind::OtherLauncher) { return {kind, rank, ranks}; }
/// The error of a promise that cannot be kept: each has the way out, too.
Expected refuses(std::vector<std::string> says) {
  says.emplace_back("SINEW_ALONE=1");
  return {.error = Code::Unavailable, .says = std::move(says)};
}

Environment operator+(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Environment kMasterAt = {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment kHydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
const Environment kFlux = {{"FLUX_TASK_RANK", "2"},
                           {"FLUX_JOB_SIZE", "3"},
                           {"FLUX_TASK_LOCAL_ID", "2"},
                           {"FLUX_JOB_NNODES", "1"},
                           {"FLUX_JOB_ID", "f2Qx"}};
const Environment kPals = {{"PALS_RANKID", "3"},       {"PMI_RANK", "3"},        {"PMI_SIZE", "4"},
                           {"PALS_LOCAL_RANKID", "3"}, {"PALS_LOCAL_SIZE", "4"}, {"PALS_APID", "b6d1-44"}};
const Environment kMvapich = {{"MV2_COMM_WORLD_RANK", "0"},
                              {"MV2_COMM_WORLD_SIZE", "2"},
                              {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
                              {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment kJsrun = {{"JSM_NAMESPACE_RANK", "5"},
                            {"JSM_NAMESPACE_SIZE", "12"},
                            {"JSM_NAMESPACE_LOCAL_RANK", "5"},
                            {"JSM_NAMESPACE_LOCAL_SIZE", "6"}};
const Environment kSrunStep = {{"SLURM_JOB_ID", "4100"},
                               {"SLURM_STEP_ID", "1"},
                               {"SLURM_PROCID", "2"},
                               {"SLURM_LOCALID", "0"},
                               {"SLURM_NODEID", "1"},
                               {"SLURM_STEP_NUM_TASKS", "3"},
                               {"SLURM_STEP_NODELIST", "n[1-2]"},
                               {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};
const Environment kBatchScript = {{"SLURM_JOB_ID", "4100"},
                                  {"SLURM_PROCID", "0"},
                                  {"SLURM_NTASKS", "4"},
                                  {"SLURM_NPROCS", "4"},
                                  {"SLURM_LOCALID", "0"},
                                  {"SLURM_NODEID", "0"},
                                  {"SLURM_JOB_NODELIST", "n[1-2]"},
                                  {"SLURM_TASKS_PER_NODE", "2(x2)"}};

std::vector<LauncherCase> launcher_cases() {
  return {
      {"Nobody", {}, {}},
      // Open MPI's mpirun
      {"OpenMpi", kOpenMpi,
       refuses({"OMPI_COMM_WORLD_SIZE=4: mpirun of Open MPI", "rank 1 of 4", "where rank 0 is", "PMIX_*",
                "set MASTER_ADDR and MASTER_PORT"})},
      {"OpenMpi_WithAMaster", kOpenMpi + kMasterAt, meets(1, 4)},
      {"OpenMpi_WithAnAddressAlone", kOpenMpi + Environment{{"MASTER_ADDR", "node0"}},
       refuses({"OMPI_COMM_WORLD_SIZE=4", "where rank 0 is"})},
      {"OpenMpi_OnOneHostWithAName",
       kOpenMpi + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_MCA_ess_base_jobid", "13772"}}, meets(1, 4)},
      {"OpenMpi_WithPmix",
       kOpenMpi + Environment{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "j"}},
       {LaunchKind::Pmix, 1, 0}},
      {"OpenMpi_OfOne", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, {}},
      {"OpenMpi_WithoutItsRank",
       {{"OMPI_COMM_WORLD_SIZE", "4"}},
       refuses({"OMPI_COMM_WORLD_SIZE=4", "one of 4 ranks", "which rank it is", "RANK, WORLD_SIZE, MASTER_ADDR"})},
      {"OpenMpi_RankBeyondItsSize",
       {{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       {.error = Code::InvalidArgument, .says = {"OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=4"}}},
      {"OpenMpi_NoNumber",
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "four"}},
       {.error = Code::InvalidArgument, .says = {"OMPI_COMM_WORLD_SIZE=four: expected a whole number"}}},
      {"OpenMpi_EmptyVariables", {{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}}, {}},
      // MPICH's and Intel MPI's mpiexec
      {"Hydra_WithoutItsServer", kHydra,
       refuses({"PMI_SIZE=4: mpiexec of MPICH or Intel MPI", "rank 1 of 4", "no name", "inherit PMI_FD"})},
      {"Hydra_WithAMaster", kHydra + kMasterAt, meets(1, 4)},
      {"Hydra_WithItsServer", kHydra + Environment{{"PMI_FD", "7"}}, meets(1, 4, LaunchKind::Pmi1)},
      {"Hydra_AtAPort",
       {{"PMI_PORT", "node0:4000"}, {"PMI_ID", "2"}, {"MPI_LOCALNRANKS", "3"}, {"MPI_LOCALRANKID", "2"}},
       {LaunchKind::Pmi1, 2, 0}},
      {"Hydra_AtAPortWithoutItsNumber",
       {{"PMI_PORT", "node0:4000"}},
       {.error = Code::InvalidArgument, .says = {"PMI_PORT set, but PMI_ID missing"}}},
      {"Hydra_OfOne", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, {}},
      {"Hydra_LocalRankAlone",
       {{"MPI_LOCALRANKID", "1"}},
       refuses({"MPI_LOCALRANKID=1: mpiexec of MPICH or Intel MPI", "rank 1 of its host", "RANK, WORLD_SIZE"})},
      {"Hydra_LocalNumbersAlone",
       {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}},
       refuses({"MPI_LOCALNRANKS=2", "one of 2 ranks", "PMI_RANK, PMI_SIZE and PMI_FD"})},
      {"Hydra_LocalNumbersOfOne", {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}}, {}},
      {"Hydra_LocalRankAloneWithAMaster", Environment{{"MPI_LOCALRANKID", "3"}} + kMasterAt,
       refuses({"MPI_LOCALRANKID=3", "rank 3 of its host", "which rank it is"})},
      // MVAPICH2's mpirun_rsh
      {"Mvapich", kMvapich, refuses({"MV2_COMM_WORLD_SIZE=2: mpirun_rsh of MVAPICH2", "rank 0 of 2", "no name"})},
      {"Mvapich_WithAMaster", kMvapich + kMasterAt, meets(0, 2)},
      {"Mvapich_OfOne", {{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "1"}}, {}},
      {"Mvapich_LocalSizeAsASetting", {{"MV2_COMM_WORLD_LOCAL_SIZE", "16"}}, {}},
      // jsrun
      {"Jsrun", kJsrun, refuses({"JSM_NAMESPACE_SIZE=12: jsrun", "rank 5 of 12", "where rank 0 is"})},
      {"Jsrun_WithAMaster", kJsrun + kMasterAt, meets(5, 12)},
      {"Jsrun_OfOne", {{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "1"}}, {}},
      // PALS
      {"Pals_OnOneHost", kPals, meets(3, 4)},
      {"Pals_OnTwoHosts", kPals + Environment{{"PALS_LOCAL_SIZE", "2"}},
       refuses({"PMI_SIZE=4: mpiexec of PALS", "rank 3 of 4", "where rank 0 is"})},
      {"Pals_OnTwoHostsWithAMaster", kPals + kMasterAt + Environment{{"PALS_LOCAL_SIZE", "2"}}, meets(3, 4)},
      {"Pals_WithoutASize",
       {{"PALS_RANKID", "3"}, {"PALS_APID", "b6"}},
       refuses({"PALS_RANKID=3: mpiexec of PALS", "as rank 3", "how many ranks"})},
      {"Pals_OfOne", {{"PALS_RANKID", "0"}, {"PALS_LOCAL_SIZE", "1"}, {"PALS_APID", "b6"}}, {}},
      // Flux
      {"Flux_OnOneHost", kFlux, meets(2, 3)},
      {"Flux_OnTwoHosts", kFlux + Environment{{"FLUX_JOB_NNODES", "2"}},
       refuses({"FLUX_JOB_SIZE=3: flux run", "rank 2 of 3", "pmi=off"})},
      {"Flux_OnTwoHostsWithAMaster", kFlux + kMasterAt + Environment{{"FLUX_JOB_NNODES", "2"}}, meets(2, 3)},
      {"Flux_WithItsServer", kFlux + Environment{{"PMI_FD", "7"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}},
       meets(2, 3, LaunchKind::Pmi1)},
      {"Flux_OfOne", {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}, {"FLUX_JOB_NNODES", "1"}}, {}},
      {"Flux_InItsShell", {{"FLUX_URI", "local:///run/flux/local"}}, {}},
      // Slurm
      {"Slurm_Step", kSrunStep, meets(2, 3, LaunchKind::Slurm)},
      {"Slurm_StepWithoutItsNumber",
       {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}},
       {.error = Code::InvalidArgument,
        .says = {"SLURM_STEP_NUM_TASKS=3", "3 tasks", "SLURM_STEP_ID is not set", "SINEW_ALONE=1"}}},
      {"Slurm_StepWithoutItsNodes",
       {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}},
       {.error = Code::InvalidArgument, .says = {"SLURM_LOCALID: not set"}}},
      {"Slurm_BatchScript", kBatchScript, {}},
      {"Slurm_BatchScriptAsAStep", kBatchScript + Environment{{"SLURM_STEP_ID", "4294967291"}}, {}},
      {"Slurm_SallocsShell", {{"SLURM_JOB_ID", "4100"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "n[1-2]"}}, {}},
      {"Slurm_SallocsShellAsAStep",
       kBatchScript + Environment{{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}},
       {}},
      {"Slurm_StepOfOne",
       {{"SLURM_JOB_ID", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"},
        {"SLURM_STEP_NODELIST", "n1"},
        {"SLURM_STEP_TASKS_PER_NODE", "1"}},
       {LaunchKind::Slurm, 0, 1}},
      // One launcher within another
      {"SrunStartsPalsRanks", kSrunStep + Environment{{"PALS_RANKID", "2"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}},
       meets(2, 3, LaunchKind::Slurm)},
      {"SrunStartsMpirunsDaemons", kSrunStep + kOpenMpi, refuses({"OMPI_COMM_WORLD_SIZE=4", "rank 1 of 4"})},
      {"SrunWithAnOuterSizeOfOne", kSrunStep + Environment{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}},
       meets(2, 3, LaunchKind::Slurm)},
      {"MpirunWithinABatchScript", kBatchScript + kOpenMpi, refuses({"OMPI_COMM_WORLD_SIZE=4"})},
      {"RankWithinEveryLauncher",
       kOpenMpi + kHydra + kFlux + kPals + kMvapich + kJsrun + kSrunStep + kMasterAt +
           Environment{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       meets(0, 2, LaunchKind::Variables)},
      // As asked for
      {"Alone_WithinEveryLauncher",
       kOpenMpi + kHydra + kFlux + kPals + kMvapich + kJsrun + kSrunStep + kMasterAt +
           Environment{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SINEW_ALONE", "1"}},
       {}},
      {"Alone_BesideAMasterOfOthers", kMasterAt + Environment{{"SINEW_ALONE", "1"}}, {}},
      {"Alone_NotAskedFor", kMvapich + Environment{{"SINEW_ALONE", "0"}}, refuses({"MV2_COMM_WORLD_SIZE=2"})},
  };
}

class Launchers : public testing::TestWithParam<LauncherCase> {};
INSTANTIATE_TEST_SUITE_P(Each, Launchers, testing::ValuesIn(launcher_cases()),
                         [](const auto& row) { return row.param.name; });

TEST_P(Launchers, MeetOrAreRefusedOrAreAlone) {
  const Expected& expected = GetParam().expected;
  try {
    const LaunchVariables v = read_launch_variables(lookup_in(GetParam().variables));
    EXPECT_FALSE(expected.error) << "rank " << v.rank << " of " << v.ranks;
    EXPECT_EQ(v.kind, expected.kind);
    EXPECT_EQ(v.rank, expected.rank);
    EXPECT_EQ(v.ranks, expected.ranks);
  } catch (const Error& e) {
    ASSERT_TRUE(expected.error) << e.what();
    EXPECT_EQ(e.code(), *expected.error);
    for (const std::string& text : expected.says) EXPECT_THAT(e.what(), HasSubstr(text));
  }
}

TEST(LauncherPromises, OnOneHost_SayHowTheirRanksMeet) {
  const Environment pals = kPals;
  const LaunchVariables v = read_launch_variables(lookup_in(pals));
  EXPECT_EQ(v.local_rank, 3);
  EXPECT_EQ(v.local_ranks, 4);
  EXPECT_EQ(v.job, "b6d1-44");
  EXPECT_EQ(v.master_port, 0);
}

TEST(LauncherPromises, WithAMaster_SayWhereItIs) {
  const Environment flux = kFlux + kMasterAt + Environment{{"FLUX_JOB_NNODES", "2"}};
  const LaunchVariables v = read_launch_variables(lookup_in(flux));
  EXPECT_EQ(v.master_host, "node0");
  EXPECT_EQ(v.master_port, 29500);
  EXPECT_EQ(v.hosts, 2);
  EXPECT_EQ(v.spread, "FLUX_JOB_NNODES=2");
}

}  // namespace
}  // namespace sinew
