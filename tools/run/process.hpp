#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::run {

/// How a process ended: an exit code, or the signal that ended it.
struct Ending {
  int code = 0;
  int signal = 0;
  bool core = false;
  bool lost = false;             ///< nobody knows: its host cannot be reached any more
  pid_t pid = -1;                ///< on its host; -1: unknown
  std::string last_errors = {};  ///< the last lines that it wrote to standard error, unless it ended well

  static Ending from_wait_status(int status) noexcept;
  bool ok() const noexcept { return code == 0 && signal == 0 && !lost; }
  /// As a shell gives it: the code, or 128 plus the signal's number.
  int exit_code() const noexcept { return lost ? 255 : signal != 0 ? 128 + signal : code; }
  /// "ended with exit code 3", "was killed by SIGSEGV (core dumped)".
  std::string text() const;
};

/// "SIGTERM", or "signal 64" for those without a name.
std::string signal_name(int number);

/// Variables and their values. If a name comes several times, its last entry counts.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// The value that counts; nullopt: the name does not come.
std::optional<std::string> value_of(const Variables& variables, std::string_view name);

struct ProcessOptions {
  std::vector<std::string> command;
  /// On top of this process's own. Its PATH is where the program is looked for.
  Variables environment;
  int input = -1;  ///< standard input: a descriptor to inherit; -1: /dev/null, or a pipe if asked for
  bool pipe_input = false;
  bool pipe_errors = true;  ///< false: standard error is ours
  std::string folder;       ///< working folder; empty: ours
};

/// Lets this process and the children that it will start open so many files, sockets and pipes: raises the soft limit,
/// and the hard one where that is lower and this process is privileged. Returns how many it may open.
std::size_t allow_descriptors(std::size_t needed) noexcept;

/// A child in a process group of its own that dies with this process, whatever ends it.
/// Lifetime: the owner reaps it; destroying it while it runs leaves it running.
struct Process {
  pid_t pid = -1;
  FileDescriptor input;   ///< our end, if asked for
  FileDescriptor output;  ///< our non-blocking end of its standard output
  FileDescriptor errors;  ///< alike, if asked for
};

/// Takes what lies in a pipe that does not block at this moment, and nothing that is written later.
void read_what_is_there(int pipe, const std::function<void(std::string_view bytes)>& take);

/// Errors: Error{InvalidArgument} if the program cannot be run: "PROGRAM: No such file or directory".
Process start_process(const ProcessOptions& options);

}  // namespace sinew::run
