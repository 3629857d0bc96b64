// What sinew-run starts on other hosts, asked by itself.
#include <sys/stat.h>

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
#include <sinew/core/net/socket_address.hpp>
#include <support/scratch_folder.hpp>

#include "../../tools/run/agent_protocol.hpp"
#include "run_job.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

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

/// An agent with this task, whose standard input stays open meanwhile.
Outcome run_agent(const run::AgentTask& task) {
  const ScratchFolder folder;
  const Bytes message = WireWriter().bytes(task.encode()).take();
  std::ofstream(folder / "task", std::ios::binary)
      .write(reinterpret_cast<const char*>(message.data()), static_cast<std::streamsize>(message.size()));
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

}  // namespace
}  // namespace sinew::test
