#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <support/run_program.hpp>

namespace sinew::test {
namespace {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  return {FileDescriptor::kept_by_children(ends[0]), FileDescriptor::kept_by_children(ends[1])};
}

[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::string>& environment, int out,
                         int err) {
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  _exit(127);
}

/// Appends what is there; false at the end of the file.
bool take(int descriptor, std::string& text) {
  std::array<char, 4096> block;
  const ssize_t bytes = read(descriptor, block.data(), block.size());
  if (bytes > 0) text.append(block.data(), static_cast<std::size_t>(bytes));
  return bytes > 0;
}

}  // namespace

Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const pid_t child = fork();
  if (child < 0) throw_errno("fork");
  if (child == 0) become(command, environment, out.write.get(), err.write.get());
  out.write = FileDescriptor();
  err.write = FileDescriptor();
  Outcome outcome;
  std::array<pollfd, 2> ends{pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    poll(ends.data(), ends.size(), -1);
    if (ends[0].revents != 0 && !take(ends[0].fd, outcome.out)) ends[0].fd = -1;
    if (ends[1].revents != 0 && !take(ends[1].fd, outcome.err)) ends[1].fd = -1;
  }
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace sinew::test
