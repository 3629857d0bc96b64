#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/slurm.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

Lookup in(const Environment& environment) {
  return [environment](const char* name) -> std::optional<std::string> {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  };
}

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

/// "name:tasks" of each node.
std::vector<std::string> allocation(const Environment& environment) {
  std::vector<std::string> all;
  const auto nodes = slurm_allocation(in(environment));
  for (const SlurmNode& n : nodes.value()) all.push_back(n.name + ":" + std::to_string(n.tasks));
  return all;
}

template <class Read>
std::string complaint(const Read& read, const Environment& environment) {
  try {
    static_cast<void>(read(in(environment)));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "no complaint";
}

const Environment kBatch = {{"SLURM_JOB_ID", "77"},       {"SLURM_JOB_NODELIST", "n[1-3]"},
                            {"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_TASKS_PER_NODE", "4(x2),2"},
                            {"SLURM_NTASKS", "10"},       {"SLURM_PROCID", "0"},
                            {"SLURM_LOCALID", "0"},       {"SLURM_NODEID", "0"}};

/// The third of five tasks on two nodes.
const Environment kTask = with(kBatch, {{"SLURM_STEP_ID", "4"},
                                        {"SLURM_STEP_NUM_TASKS", "5"},
                                        {"SLURM_STEP_NODELIST", "n[2-3]"},
                                        {"SLURM_STEP_TASKS_PER_NODE", "3,2"},
                                        {"SLURM_TASKS_PER_NODE", "3,2"},
                                        {"SLURM_JOB_NUM_NODES", "2"},
                                        {"SLURM_NTASKS", "5"},
                                        {"SLURM_PROCID", "3"},
                                        {"SLURM_LOCALID", "0"},
                                        {"SLURM_NODEID", "1"}});

TEST(SlurmAllocation, IsThatOfABatchScript) {
  EXPECT_THAT(allocation(kBatch), ElementsAre("n1:4", "n2:4", "n3:2"));
  EXPECT_THAT(allocation({{"SLURM_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}}), ElementsAre("a:1", "b:1"));
  EXPECT_EQ(slurm_allocation(in({})), std::nullopt);
}

TEST(SlurmAllocation, DealsTasksEqually_WhereNobodySaysMore) {
  EXPECT_THAT(allocation({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_NTASKS", "8"}}),
              ElementsAre("n1:3", "n2:3", "n3:2"));
  EXPECT_THAT(allocation({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_NTASKS", "2"}}),
              ElementsAre("n1:1", "n2:1", "n3:0"));
}

TEST(SlurmAllocation, IsNone_InOneOfSeveralTasks) { EXPECT_EQ(slurm_allocation(in(kTask)), std::nullopt); }

TEST(SlurmAllocation, IsSeenFromAShellThatSrunHasStarted) {
  const Environment shell = with(kBatch, {{"SLURM_STEP_ID", "0"},
                                          {"SLURM_STEP_NUM_TASKS", "1"},
                                          {"SLURM_STEP_NODELIST", "n1"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                          {"SLURM_JOB_NUM_NODES", "1"},
                                          {"SLURM_NODELIST", "n1"}});
  // salloc's shell, with what --preserve-env keeps; as a step with a number and with one of Slurm's own.
  EXPECT_THAT(allocation(shell), ElementsAre("n1:4", "n2:4", "n3:2"));
  EXPECT_THAT(allocation(with(shell, {{"SLURM_STEP_ID", "4294967290"}})), ElementsAre("n1:4", "n2:4", "n3:2"));
  // srun --pty: the counts are of its step.
  EXPECT_THAT(allocation(with(shell, {{"SLURM_TASKS_PER_NODE", "1"}, {"SLURM_NTASKS", "1"}})), ElementsAre("n1:1"));
}

TEST(SlurmAllocation, IsRefused_WhereItsVariablesContradictEachOther) {
  const auto said = [](const Environment& more) { return complaint(slurm_allocation, with(kBatch, more)); };
  EXPECT_THAT(said({{"SLURM_JOB_NODELIST", "n[1-4]"}}),
              AllOf(HasSubstr("SLURM_JOB_NUM_NODES=3"), HasSubstr("SLURM_JOB_NODELIST=n[1-4] names 4 nodes")));
  EXPECT_THAT(said({{"SLURM_TASKS_PER_NODE", "4(x2)"}}),
              AllOf(HasSubstr("SLURM_TASKS_PER_NODE=4(x2) is for 2 nodes"), HasSubstr("n[1-3] names 3")));
  EXPECT_THAT(said({{"SLURM_NTASKS", "11"}}),
              AllOf(HasSubstr("SLURM_NTASKS=11"), HasSubstr("SLURM_TASKS_PER_NODE=4(x2),2, which are 10")));
  EXPECT_THAT(said({{"SLURM_JOB_NODELIST", "n[1"}}), HasSubstr("SLURM_JOB_NODELIST=n[1: a bracket is not closed"));
  EXPECT_THAT(said({{"SLURM_JOB_NUM_NODES", "x"}}), HasSubstr("SLURM_JOB_NUM_NODES=x: expected a whole number"));
  EXPECT_THAT(complaint(slurm_allocation, {{"SLURM_JOB_NODELIST", "a"}}),
              HasSubstr("neither SLURM_TASKS_PER_NODE nor SLURM_NTASKS"));
}

TEST(SlurmStep, IsReadWhole) {
  const SlurmStep step = slurm_step(in(kTask)).value();
  EXPECT_EQ(step.task, 3);
  EXPECT_EQ(step.tasks, 5);
  EXPECT_EQ(step.local_task, 0);
  EXPECT_EQ(step.local_tasks, 2);
  EXPECT_EQ(step.first_node, "n2");
  EXPECT_EQ(step.name, "slurm-77.4");
  EXPECT_EQ(step.port, 61440 + 77 + 4 * 257);
}

/// Federations have the number of their cluster in an id's upper bits.
TEST(SlurmStep, TakesIdsOf32Bits) {
  EXPECT_EQ(slurm_step(in(with(kTask, {{"SLURM_JOB_ID", "4227858509"}}))).value().name, "slurm-4227858509.4");
  for (const char* id : {"4294967296", "-1", "x"}) {
    EXPECT_THAT(complaint(slurm_step, with(kTask, {{"SLURM_JOB_ID", id}})), HasSubstr("expected a whole number"));
  }
}

TEST(SlurmStep, IsNone_InABatchScriptAndInSallocsShell) {
  EXPECT_EQ(slurm_step(in({})), std::nullopt);
  EXPECT_EQ(slurm_step(in(kBatch)), std::nullopt);
  EXPECT_EQ(slurm_step(in(with(kTask, {{"SLURM_STEP_ID", "4294967290"}}))), std::nullopt);
}

TEST(SlurmStep, IsRefused_WhereSomethingIsMissingOrContradictsTheRest) {
  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NODELIST",
                           "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID"}) {
    Environment less = kTask;
    less.erase(name);
    EXPECT_THAT(complaint(slurm_step, less), AllOf(HasSubstr(name), HasSubstr("not set")));
  }
  const auto said = [](const Environment& more) { return complaint(slurm_step, with(kTask, more)); };
  EXPECT_THAT(said({{"SLURM_PROCID", "5"}}), AllOf(HasSubstr("SLURM_PROCID=5"), HasSubstr("NUM_TASKS=5")));
  EXPECT_THAT(said({{"SLURM_NODEID", "2"}}), HasSubstr("SLURM_NODEID=2, SLURM_STEP_NODELIST=n[2-3]"));
  EXPECT_THAT(said({{"SLURM_STEP_TASKS_PER_NODE", "5"}}), HasSubstr("contradict each other"));
  EXPECT_THAT(said({{"SLURM_LOCALID", "2"}}), HasSubstr("SLURM_LOCALID=2"));
}

}  // namespace
}  // namespace sinew
