#pragma once

#include <string>
#include <vector>

namespace sinew::test {

struct Outcome {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out;
  std::string err;
};

/// Runs a program to its end. `environment`: "NAME=value" entries added to this process's.
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

}  // namespace sinew::test
