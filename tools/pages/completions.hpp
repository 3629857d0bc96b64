#pragma once

#include <string>

#include "command.hpp"

namespace sinew::tools {

/// A script that completes the options, commands and listed values of a program in a shell. Has every option of --help.
std::string bash_completion(const Command& command);
std::string zsh_completion(const Command& command);
std::string fish_completion(const Command& command);

}  // namespace sinew::tools
