#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace sinew::tools {

/// Parses the command line, which runs the callbacks of sub commands, then `job`, and returns the exit code: the job's,
/// 0 after --help or --version, 2 for bad input, 1 for anything else that threw. Whatever is wrong is one line on
/// stderr: what was found and what was expected. `speaks`: false keeps quiet about bad input, which other ranks of
/// the same job report already.
int run(CLI::App& app, int argc, char** argv, const std::function<int()>& job = {}, bool speaks = true);

}  // namespace sinew::tools
