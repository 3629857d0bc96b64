#pragma once

#include <functional>
#include <optional>

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
/// `rank`: of a program that is a rank of a job. Its faults bear the number. All ranks have the same command line, so
/// ranks above 0 leave faults of the command line to rank 0.
int run(CLI::App& app, int argc, char** argv, const std::function<int()>& job = {}, std::optional<int> rank = {});

/// The rank that this process is, or nullopt if it is alone, or if a launcher's variables are wrong. The World need not
/// exist yet.
std::optional<int> rank_of_process() noexcept;

}  // namespace sinew::tools
