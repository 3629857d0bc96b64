#pragma once

#include <functional>

#include <sinew/core/error.hpp>

namespace CLI {
class App;
}

namespace sinew::tools {

/// Wrong on the command line, but noticed only in the job: the same on all of its ranks.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(Code::InvalidArgument, message) {}
};

/// Parses the command line, which runs the callbacks of sub commands, then `job`, and returns the exit code: the job's,
/// 0 after --help or --version, 2 for bad input, 1 for anything else that threw or for output that was lost. Before
/// anything else it calls open_missing_streams(). Whatever is wrong is one line on
/// stderr: what was found and what was expected. `speaks`: false keeps quiet about the command line, which is the same
/// on all ranks and which another rank reports; what this rank alone may have found is said all the same.
int run(CLI::App& app, int argc, char** argv, const std::function<int()>& job = {}, bool speaks = true);

}  // namespace sinew::tools
