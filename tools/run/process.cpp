#include "process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>

extern char** environ;

namespace sinew::run {
namespace {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("making a pipe for a rank");
  return {FileDescriptor::kept_by_children(ends[0]), FileDescriptor::kept_by_children(ends[1])};
}

void make_non_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// Ours, with `added` over it: of a name that is there several times the last counts.
std::vector<std::string> merged_environment(const Variables& added) {
  std::map<std::string, std::string, std::less<>> entries;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry(*e);
    entries.try_emplace(std::string(entry.substr(0, entry.find('='))), entry);
  }
  for (const auto& [name, value] : added) entries.insert_or_assign(name, fmt::format("{}={}", name, value));
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries) all.push_back(entry);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& s : strings) all.push_back(s.data());
  all.push_back(nullptr);
  return all;
}

/// What the child needs, made before the fork: after it nothing is allocated.
struct ChildPlan {
  pid_t parent;
  int input, output, errors, report;
  const char* folder;
  char* const* arguments;
  char** environment;
};

[[noreturn]] void become(const ChildPlan& plan) {
  const auto give_up = [&] {
    const int reason = errno;
    [[maybe_unused]] const auto written = ::write(plan.report, &reason, sizeof reason);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // it died before it could be watched
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(plan.input, 0) < 0 || ::dup2(plan.output, 1) < 0 || ::dup2(plan.errors, 2) < 0) give_up();
  if (plan.folder != nullptr && ::chdir(plan.folder) != 0) give_up();
  environ = plan.environment;  // where execvp takes PATH from: the rank's, not ours
  ::execvp(plan.arguments[0], plan.arguments);
  give_up();
  __builtin_unreachable();
}

}  // namespace

std::optional<std::string> value_of(const Variables& variables, std::string_view name) {
  const auto at = std::find_if(variables.rbegin(), variables.rend(), [&](const auto& v) { return v.first == name; });
  return at == variables.rend() ? std::nullopt : std::optional(at->second);
}

Ending Ending::from_wait_status(int status) noexcept {
  Ending e;
  if (WIFSIGNALED(status)) {
    e.signal = WTERMSIG(status);
    e.core = WCOREDUMP(status);
  } else {
    e.code = WEXITSTATUS(status);
  }
  return e;
}

std::string Ending::text() const {
  if (lost) return "was lost with its host";
  if (signal == 0) return fmt::format("ended with exit code {}", code);
  return fmt::format("was killed by {}{}", signal_name(signal), core ? " (core dumped)" : "");
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

void read_what_is_there(int pipe, const std::function<void(std::string_view bytes)>& take) {
  int left = 0;
  if (::ioctl(pipe, FIONREAD, &left) != 0) return;
  std::array<char, 65536> bytes;
  while (left > 0) {
    const ssize_t got = ::read(pipe, bytes.data(), std::min(bytes.size(), static_cast<std::size_t>(left)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    take({bytes.data(), static_cast<std::size_t>(got)});
    left -= static_cast<int>(got);
  }
}

std::size_t allow_descriptors(std::size_t needed) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return needed;
  const rlimit wanted{needed, std::max<rlim_t>(needed, limit.rlim_max)};
  const rlimit granted{std::min<rlim_t>(needed, limit.rlim_max), limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) return needed;
  return ::setrlimit(RLIMIT_NOFILE, &granted) == 0 ? granted.rlim_cur : limit.rlim_cur;
}

Process start_process(const ProcessOptions& options) {
  Pipe output = make_pipe();
  Pipe report = make_pipe();
  Pipe errors;
  Pipe input;
  FileDescriptor nothing;
  if (options.pipe_errors) errors = make_pipe();
  if (options.pipe_input) {
    input = make_pipe();
  } else if (options.input < 0) {
    nothing = FileDescriptor::kept_by_children(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  std::vector<std::string> arguments = options.command;
  std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  const int in = options.pipe_input ? input.read.get() : options.input < 0 ? nothing.get() : options.input;
  const ChildPlan plan{::getpid(),         in,
                       output.write.get(), options.pipe_errors ? errors.write.get() : 2,
                       report.write.get(), options.folder.empty() ? nullptr : options.folder.c_str(),
                       argv.data(),        envp.data()};
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("starting a rank");
  if (pid == 0) become(plan);
  ::setpgid(pid, pid);  // whoever is first: a signal to the group must find it
  report.write = FileDescriptor();
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.read.get(), &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof reason) {
    ::waitpid(pid, nullptr, 0);
    throw Error(Code::InvalidArgument, fmt::format("{}: {}; expected a program that can be run on {}",
                                                   options.command.front(), std::strerror(reason), host_name()));
  }
  make_non_blocking(output.read.get());
  if (options.pipe_errors) make_non_blocking(errors.read.get());
  return {pid, std::move(input.write), std::move(output.read), std::move(errors.read)};
}

}  // namespace sinew::run
