#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace sinew::abuse {

/// The processes of a job: one launcher, or its ranks where each is started alone.
class Job {
 public:
  /// `command` as every rank, `ranks` of them; launcher: sinew-run, or empty: none, and rank 0 serves the store.
  /// What they print goes to `output`.
  Job(const std::vector<std::string>& command, int ranks, const std::string& launcher, const std::string& output);

  bool has_ended();
  /// What is left of it is asked to end, and waited for.
  void end();
  /// Exit codes so far, of the launcher or by rank; -1: it runs, or a signal ended it.
  const std::vector<int>& exit_codes() const noexcept { return codes_; }

 private:
  std::vector<pid_t> running_;
  std::vector<int> codes_;
};

/// Whether it came true soon enough.
bool waited_for(const std::function<bool()>& holds, std::chrono::nanoseconds patience);

bool is_alive(pid_t pid) noexcept;

}  // namespace sinew::abuse
