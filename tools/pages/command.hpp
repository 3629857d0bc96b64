#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace sinew::tools {

/// An option or a positional argument as --help shows it. Options that --help hides are left out.
struct CommandOption {
  std::vector<std::string> names;   ///< "-n", "--ranks"; of a positional argument its one name, such as "BYTES"
  std::string form;                 ///< what --help prints after the names, such as "TEXT:{f32,bf16}"; may be empty
  std::string description;          ///< plain text, may have several lines
  std::vector<std::string> values;  ///< the words that the option takes, where `form` lists them
  bool is_positional = false;
  bool takes_value = false;
  bool is_required = false;
};

/// A program, or one of its sub commands, as --help shows it.
struct Command {
  std::string name;         ///< "sinew-info", and "plan" of a sub command
  std::string description;  ///< plain text, may have several lines
  std::string footer;       ///< the same; empty: none
  std::vector<CommandOption> options;
  std::vector<Command> commands;
  bool runs_program = false;    ///< the first word that is no option is a program, with the words after it
  bool shares_options = false;  ///< sub commands also take the options of this command
};

/// Reads a command line. The texts of --help and of pages have this one source.
Command command_of(const CLI::App& app);

/// The description without the usage line that it may begin with.
std::string text_of(const Command& command);

/// The first sentence of that text, on one line and without its full stop.
std::string summary_of(const Command& command);

}  // namespace sinew::tools
