#include "page.hpp"

#include <iostream>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

#include "command.hpp"
#include "completions.hpp"
#include "man_page.hpp"

namespace sinew::tools {

std::string_view asked_page(int argc, char** argv) {
  return argc == 3 && std::string_view(argv[1]) == "--page" ? std::string_view(argv[2]) : std::string_view();
}

void print_page(const CLI::App& app, std::string_view kind) {
  const Command command = command_of(app);
  if (kind == "man")
    std::cout << man_page(command);
  else if (kind == "bash")
    std::cout << bash_completion(command);
  else if (kind == "zsh")
    std::cout << zsh_completion(command);
  else if (kind == "fish")
    std::cout << fish_completion(command);
  else
    throw Error(Code::InvalidArgument, fmt::format("--page {}: expected man, bash, zsh or fish", kind));
}

}  // namespace sinew::tools
