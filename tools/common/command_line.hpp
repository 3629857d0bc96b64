#pragma once

#include <functional>

#include <sinew/core/error.hpp>

namespace CLI {
class App;
}

namespace sinew::tools {

/// A fault of the command line that is noticed only in the job, by all of its ranks alike.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(Code::InvalidArgument, message) {}
};

/// Opens missing standard streams, parses the command line, which runs the callbacks of sub commands, then runs `job`.
/// Instead it prints a page for packages if --page asks for one (tools/pages/page.hpp).
/// Returns the exit code. It is the job's, 0 after --help, --version or a page, and 2 for bad input. It is 1 for any other
/// exception and for output that was lost. A fault is one line on stderr: what was found and what was expected.
/// `speaks`: false on a rank that leaves faults of the command line to another rank. All ranks have the same command
/// line. Other faults of such a rank are still reported.
int run(CLI::App& app, int argc, char** argv, const std::function<int()>& job = {}, bool speaks = true);

}  // namespace sinew::tools
