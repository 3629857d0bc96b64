#pragma once

#include <string_view>

namespace CLI {
class App;
}

namespace sinew::tools {

/// The kind of page that a command line asks for: PROGRAM --page KIND, a hidden request that the build makes. Empty:
/// none is asked for.
std::string_view asked_page(int argc, char** argv);

/// Prints a page about the program to standard output. `kind`: man, bash, zsh or fish.
/// Errors: Error{InvalidArgument} for another kind.
void print_page(const CLI::App& app, std::string_view kind);

}  // namespace sinew::tools
