#include "probed_launch.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>

namespace sinew::test {

using testing::HasSubstr;
using testing::Not;

int some_port() {
  int lowest_given = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> lowest_given;
  constexpr int kLowest = 10000;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(kLowest + random_id() % std::max(lowest_given - kLowest, 1000));
    try {
      return listen_everywhere(0, std::pair{port, port}).address.port();
    } catch (const Error&) {  // taken: another
    }
  }
}

Strings master(int rank, int ranks, int port, const Strings& more) {
  Strings all = {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", ranks), "MASTER_ADDR=127.0.0.1",
                 fmt::format("MASTER_PORT={}", port), "SINEW_TIMEOUT=60s"};
  all.insert(all.end(), more.begin(), more.end());  // the last of a name counts
  return all;
}

std::vector<Outcome> probe_each(const std::vector<Strings>& environments, const Strings& arguments) {
  Strings command = {EXCHANGE_PROBE};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<Outcome> outcomes(environments.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < environments.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = run_program(command, environments[i]); });
  }
  for (auto& t : threads) t.join();
  return outcomes;
}

void expect_all_met(const std::string& out, int ranks, int worlds, const std::string& kind) {
  for (int w = 0; w < worlds; ++w) {
    for (int r = 0; r < ranks; ++r) {
      EXPECT_THAT(out, HasSubstr(fmt::format("world {} rank {} of {} kind {}", w, r, ranks, kind)));
    }
  }
  EXPECT_THAT(out, Not(HasSubstr("DIFFERS")));
}

bool is_there(const char* program) {
  return std::system(fmt::format("command -v {} >/dev/null", program).c_str()) == 0;
}

SecretFile::SecretFile(std::string_view text)
    : path_(fmt::format("{}/sinew-secret-{:x}", testing::TempDir(), random_id())) {
  std::ofstream(path_) << text;
  ::chmod(path_.c_str(), S_IRUSR);
}

SecretFile::~SecretFile() { std::filesystem::remove(path_); }

Strings srun(int task, const std::vector<int>& nodes, int job, const Strings& more) {
  int tasks = 0, node = 0, first = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (task >= tasks) node = static_cast<int>(n), first = tasks;
    tasks += nodes[n];
  }
  Strings all = {fmt::format("SLURM_JOB_ID={}", job),
                 "SLURM_STEP_ID=0",
                 fmt::format("SLURM_PROCID={}", task),
                 fmt::format("SLURM_LOCALID={}", task - first),
                 fmt::format("SLURM_NODEID={}", node),
                 fmt::format("SLURM_STEP_NUM_TASKS={}", tasks),
                 fmt::format("SLURM_STEP_NODELIST=node[1-{}]", nodes.size()),
                 fmt::format("SLURM_STEP_TASKS_PER_NODE={}", fmt::join(nodes, ",")),
                 "SINEW_TIMEOUT=60s"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace sinew::test
