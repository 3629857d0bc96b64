// What sinew-run starts on other hosts, asked by itself.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/tools/run/agent_protocol.hpp>
#include <support/scratch_folder.hpp>

#include "run_job.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;
using testing::Not;

run::AgentTask task_of(const Strings& command) {
  run::AgentTask task;
  task.plan.command = command;
  task.plan.count = 1;
  task.plan.ranks = 1;
  task.master_port = 29500;
  task.job = fmt::format("{:016x}", random_id());
  task.secret = random_secret();
  return task;
}

/// A task of an agent that is a relay, in a job whose store nobody serves.
run::AgentTask task_without_store(const std::string& timeout) {
  run::AgentTask task = task_of({"echo", "started"});
  task.plan.environment = {
      {"SINEW_START_TREE", "16:100"}, {"SINEW_START_TREE", "16:1"}, {"SINEW_TIMEOUT", timeout}};  // the last one counts
  task.store = fmt::format("127.0.0.1:{}", listen_everywhere(0, {}).address.port());  // where nobody listens any more
  return task;
}

void write_task(const run::AgentTask& task, const std::string& path) {
  const Bytes message = WireWriter().bytes(task.encode()).take();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(message.data()), static_cast<std::streamsize>(message.size()));
}

/// An agent with this task, whose standard input stays open meanwhile.
Outcome run_agent(const run::AgentTask& task) {
  const ScratchFolder folder;
  write_task(task, folder / "task");
  EXPECT_EQ(::mkfifo((folder / "input").c_str(), S_IRUSR | S_IWUSR), 0);
  return run_program(
      {"sh", "-c", "exec <>\"$1\"; cat \"$2\" >&0; exec \"$0\" --agent", SINEW_RUN, folder / "input", folder / "task"});
}

TEST(SinewRunAgent, LeavesThePlaceToWhoHasIt_ThoughItDoesNotAnswer) {
  const run::AgentTask task = task_of({"echo", "started"});
  const Listener busy = listen_on(bootstrap_address(task.master_port, task.job));
  const Outcome o = run_agent(task);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("started"));
}

TEST(SinewRunAgent, Ends_WhenItsInputEnds_WhileItLooksForTheStore) {
  const ScratchFolder folder;
  write_task(task_without_store("300s"), folder / "task");
  const auto begin = Clock::now();
  const Outcome o = run_program({"sh", "-c", "exec \"$0\" --agent <\"$1\"", SINEW_RUN, folder / "task"});
  EXPECT_LT(Clock::now() - begin, std::chrono::minutes(1));
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, Not(HasSubstr("started")));
}

TEST(SinewRunAgent, ReportsThatItHasNotFoundTheStore) {
  const Outcome o = run_agent(task_without_store("1s"));
  EXPECT_EQ(o.exit_code, 2) << o.err;
  EXPECT_THAT(o.out, HasSubstr("nobody serves the job's store"));
  EXPECT_THAT(o.out, Not(HasSubstr("started")));
}

}  // namespace
}  // namespace sinew::test
