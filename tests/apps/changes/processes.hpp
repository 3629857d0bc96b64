#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace changes {

/// Starts a program whose output goes to a file.
pid_t start(const std::vector<std::string>& command, const std::string& log);

/// A job that makes no step for so long hangs, and so does a process that has not ended so long after it was told to.
constexpr std::chrono::seconds kHang{60};

/// Returns whether this child has ended, with its wait status.
bool has_ended(pid_t pid, int& status);

/// Tells this launcher to end, and waits for its end. Returns false if it hangs: then it is killed.
bool end_launcher(pid_t pid);

/// A process of the job under the launcher.
struct Member {
  pid_t pid = 0;
  std::uint64_t host = 0;   ///< the number of its network namespace
  bool is_program = false;  ///< it runs the training; otherwise it is an agent of the launcher, or a shell
};

/// The processes that the launcher has started, on any host that this machine plays, and that live.
std::vector<Member> members_of(pid_t launcher, const std::string& program);

/// The number of this process's network namespace.
std::uint64_t own_host();

}  // namespace changes
