#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include <support/run_program.hpp>

namespace sinew::test {

using Strings = std::vector<std::string>;

/// Runs sinew-run to its end.
Outcome sinew_run(Strings arguments, const Strings& environment = {});
/// A shell script as every rank.
Outcome run_script(int ranks, const std::string& script, Strings options = {}, const Strings& environment = {});

/// A sinew-run that is not waited for yet; killed with this object.
class Running {
 public:
  /// `output`: what its standard output is; -1: ours.
  explicit Running(Strings arguments, const Strings& environment = {}, int output = -1);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  /// Its exit code, or 128 and the signal.
  int wait();

 private:
  pid_t pid_ = -1;
};

Strings lines(const std::string& text);
/// Of a file that is there.
Strings lines_of(const std::string& path);
/// Waits until the file has as many lines.
Strings wait_for_lines(const std::string& path, std::size_t count);
/// Waits until the process has ended. false: it did not.
bool gone(const std::string& pid);

}  // namespace sinew::test
