#include "jobs.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

extern char** environ;

namespace sinew::abuse {
namespace {

using Strings = std::vector<std::string>;

pid_t spawn(Strings command, Strings variables, const std::string& output) {
  const auto pointers = [](Strings& strings) {
    std::vector<char*> all;
    for (std::string& s : strings) all.push_back(s.data());
    all.push_back(nullptr);
    return all;
  };
  for (char** e = environ; *e != nullptr; ++e) variables.emplace_back(*e);
  std::vector<char*> arguments = pointers(command), environment = pointers(variables);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, arguments[0], &files, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw_errno("starting " + command.front(), error);
  return pid;
}

}  // namespace

Job::Job(const Strings& command, int ranks, const std::string& launcher, const std::string& output) {
  if (!launcher.empty()) {
    Strings whole{launcher, "-n", std::to_string(ranks), "--on-failure", "continue"};
    whole.insert(whole.end(), command.begin(), command.end());
    running_.push_back(spawn(whole, {}, output));
  }
  static int jobs = 0;
  const int port = 20000 + (::getpid() * 17 + ++jobs) % 20000;
  for (int r = 0; r < ranks && launcher.empty(); ++r) {
    running_.push_back(
        spawn(command,
              {fmt::format("RANK={}", r), fmt::format("WORLD_SIZE={}", ranks), fmt::format("LOCAL_RANK={}", r),
               fmt::format("LOCAL_WORLD_SIZE={}", ranks), "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port)},
              output));
  }
  codes_.assign(running_.size(), -1);
}

bool Job::has_ended() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    int how = 0;
    if (running_[i] == 0 || ::waitpid(running_[i], &how, WNOHANG) != running_[i]) continue;
    running_[i] = 0;
    if (WIFEXITED(how)) codes_[i] = WEXITSTATUS(how);
  }
  return std::ranges::all_of(running_, [](pid_t p) { return p == 0; });
}

void Job::end() {
  for (const pid_t p : running_) {
    if (p == 0) continue;
    ::kill(p, SIGTERM);
    ::waitpid(p, nullptr, 0);
  }
  running_.assign(running_.size(), 0);
}

bool waited_for(const std::function<bool()>& holds, std::chrono::nanoseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

bool is_alive(pid_t pid) noexcept { return pid > 0 && ::kill(pid, 0) == 0; }

}  // namespace sinew::abuse
