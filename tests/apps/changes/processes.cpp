#include "processes.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>

namespace changes {
namespace {

std::uint64_t host_of(const std::string& process) {
  struct stat facts {};
  return ::stat(("/proc/" + process + "/ns/net").c_str(), &facts) == 0 ? facts.st_ino : 0;
}

/// Returns whether the process can be killed. One that has ended may still be in the table of processes.
bool lives(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", parent), gone), end; !gone && task != end;
       task.increment(gone)) {
    std::ifstream list(task->path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

pid_t start(const std::vector<std::string>& command, const std::string& log) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (std::freopen(log.c_str(), "w", stdout) == nullptr) ::_exit(127);
  ::dup2(1, 2);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(words.front(), words.data());
  ::_exit(127);
}

bool has_ended(pid_t pid, int& status) { return ::waitpid(pid, &status, WNOHANG) == pid; }

bool end_launcher(pid_t pid) {
  const auto until = std::chrono::steady_clock::now() + kHang;
  int status = 0;
  ::kill(pid, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(pid, SIGTERM);  // do not wait for the ranks
  while (!has_ended(pid, status)) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  return true;
}

std::vector<Member> members_of(pid_t launcher, const std::string& program) {
  std::vector<Member> members;
  std::vector<pid_t> open = children_of(launcher);
  while (!open.empty()) {
    const pid_t pid = open.back();
    open.pop_back();
    const std::vector<pid_t> children = children_of(pid);
    open.insert(open.end(), children.begin(), children.end());
    if (!lives(pid)) continue;
    std::error_code gone;
    const auto runs = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), gone);
    if (gone) continue;
    members.push_back({pid, host_of(fmt::format("{}", pid)), runs == std::filesystem::path(program)});
  }
  std::ranges::sort(members, {}, &Member::pid);
  return members;
}

std::uint64_t own_host() { return host_of("self"); }

}  // namespace changes
