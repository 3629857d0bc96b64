#include "run_job.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include <sinew/core/system/file_text.hpp>

namespace sinew::test {

using namespace std::chrono_literals;

namespace {
constexpr auto kHang = 60s;  // a hang, not a slow machine
}  // namespace

Outcome sinew_run(Strings arguments, const Strings& environment) {
  arguments.insert(arguments.begin(), SINEW_RUN);
  return run_program(arguments, environment);
}

Outcome run_script(int ranks, const std::string& script, Strings options, const Strings& environment) {
  options.insert(options.end(), {"-n", fmt::format("{}", ranks), "sh", "-c", script});
  return sinew_run(options, environment);
}

Running::Running(Strings arguments, const Strings& environment, int output) {
  arguments.insert(arguments.begin(), SINEW_RUN);
  pid_ = ::fork();
  if (pid_ != 0) return;
  for (const int n : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) ::signal(n, SIG_DFL);  // whoever started the tests may differ
  if (output >= 0) ::dup2(output, STDOUT_FILENO);
  for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

Running::~Running() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int Running::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Strings lines(const std::string& text) {
  Strings all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

Strings lines_of(const std::string& path) { return lines(file_text(path).value_or("")); }

Strings wait_for_lines(const std::string& path, std::size_t count) {
  const auto give_up = std::chrono::steady_clock::now() + kHang;
  for (;;) {
    Strings found = lines_of(path);
    if (found.size() >= count || std::chrono::steady_clock::now() > give_up) return found;
    std::this_thread::sleep_for(10ms);
  }
}

bool gone(const std::string& pid) {
  const auto give_up = std::chrono::steady_clock::now() + kHang;
  while (::kill(std::stoi(pid), 0) == 0) {
    const std::string state = file_text("/proc/" + pid + "/stat").value_or("");
    if (state.find(") Z ") != std::string::npos) return true;  // its new parent has not looked yet
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

}  // namespace sinew::test
