#pragma once

#include <string>

#include "command.hpp"

namespace sinew::tools {

/// The manual page of a program, section 1, in roff. Has every option of --help, of sub commands too.
std::string man_page(const Command& command);

}  // namespace sinew::tools
