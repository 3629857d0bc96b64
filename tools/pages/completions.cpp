#include "completions.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinew::tools {
namespace {

using Options = std::vector<CommandOption>;

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string replaced(std::string_view text, std::string_view characters, std::string_view before) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) out += before;
    out += c;
  }
  return out;
}

std::string function_name(const Command& command) {
  std::string name = "_" + command.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The options of --help that are no positional arguments. A sub command may take those of its program, too.
Options options_of(const Command& command, const Command* program = nullptr) {
  Options options;
  const auto take = [&](const CommandOption& option) {
    const bool has_it = std::ranges::any_of(options, [&](const CommandOption& o) { return o.names == option.names; });
    if (!option.is_positional && !has_it) options.push_back(option);
  };
  std::ranges::for_each(command.options, take);
  if (program != nullptr && program->shares_options) std::ranges::for_each(program->options, take);
  return options;
}

std::vector<std::string> names_of(const Options& options) {
  std::vector<std::string> names;
  for (const CommandOption& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> names_with_value(const Options& options) {
  Options with_value = options;
  std::erase_if(with_value, [](const CommandOption& option) { return !option.takes_value; });
  return names_of(with_value);
}

std::vector<std::string> command_names(const Command& command) {
  std::vector<std::string> names;
  for (const Command& sub : command.commands) names.push_back(sub.name);
  return names;
}

// ---- bash

/// The cases of one command: which words can follow the option before.
std::string bash_values(std::string_view command, const Options& options) {
  std::string out;
  std::vector<std::string> with_any_value;
  for (const CommandOption& option : options) {
    if (!option.takes_value) continue;
    for (const std::string& name : option.names) {
      if (option.values.empty()) with_any_value.push_back(fmt::format("{}/{}", command, name));
    }
    if (option.values.empty()) continue;
    std::vector<std::string> keys;
    for (const std::string& name : option.names) keys.push_back(fmt::format("{}/{}", command, name));
    out += fmt::format("    {}) words='{}' ;;\n", fmt::join(keys, " | "), fmt::join(option.values, " "));
  }
  if (!with_any_value.empty()) out += fmt::format("    {}) return ;;\n", fmt::join(with_any_value, " | "));
  return out;
}

std::string bash_words(std::string_view pattern, const Options& options, const std::vector<std::string>& commands) {
  return fmt::format("        {}) words='{}' ;;\n", pattern,
                     fmt::format("{} {}", fmt::join(names_of(options), " "), fmt::join(commands, " ")));
}

// ---- zsh

std::string zsh_option(const CommandOption& option, std::string_view indent) {
  std::string out;
  const std::string description = replaced(on_one_line(option.description), "[]\\", "\\");
  for (const std::string& name : option.names) {
    std::string spec = fmt::format("*{}[{}]", name, description);
    if (option.takes_value) {
      const std::string action =
          option.values.empty() ? "_default" : fmt::format("({})", fmt::join(option.values, " "));
      spec += fmt::format(":{}:{}", replaced(on_one_line(option.form), ":\\", "\\"), action);
    }
    std::string quoted;
    for (const char c : spec) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += fmt::format("{}'{}' \\\n", indent, quoted);
  }
  return out;
}

std::string zsh_options(const Options& options, std::string_view indent) {
  std::string out;
  for (const CommandOption& option : options) out += zsh_option(option, indent);
  return out;
}

std::string zsh_commands(const Command& command) {
  std::string out;
  for (const Command& sub : command.commands) {
    std::string text = replaced(summary_of(sub), ":\\", "\\"), quoted;
    for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += fmt::format("        '{}:{}'\n", sub.name, quoted);
  }
  return out;
}

// ---- fish

std::string fish_quoted(std::string_view text) {
  return fmt::format("'{}'", replaced(on_one_line(std::string(text)), "\\'", "\\"));
}

std::string fish_option(std::string_view program, std::string_view condition, const CommandOption& option) {
  std::string out = fmt::format("complete -c {}", program);
  if (!condition.empty()) out += fmt::format(" -n {}", fish_quoted(condition));
  for (const std::string& name : option.names)
    out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  if (!option.values.empty())
    out += fmt::format(" -x -a {}", fish_quoted(fmt::format("{}", fmt::join(option.values, " "))));
  else if (option.takes_value)
    out += " -r";
  return out + fmt::format(" -d {}\n", fish_quoted(option.description));
}

}  // namespace

std::string bash_completion(const Command& command) {
  const Options options = options_of(command);
  const std::vector<std::string> commands = command_names(command);
  std::vector<std::string> with_value = names_with_value(options);
  std::string values = bash_values("", options), words;
  for (const Command& sub : command.commands) {
    const Options own = options_of(sub, &command);
    values += bash_values(sub.name, own);
    words += bash_words(sub.name, own, {});
  }
  words += bash_words("*", options, commands);

  std::string found;
  if (!with_value.empty()) found += fmt::format("      {}) ((++i)) ;;\n", fmt::join(with_value, " | "));
  found += "      -* | =) ;;\n";
  if (!commands.empty())
    found += fmt::format("      {}) command=${{COMP_WORDS[i]}}; break ;;\n", fmt::join(commands, " | "));
  if (command.runs_program)
    found += "      *) if declare -F _command_offset >/dev/null; then _command_offset $i; fi; return ;;\n";

  const std::string name = function_name(command);
  return fmt::format(R"(# Completion of {0} for bash, made from its command line
{1}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command='' words='' i
  if [[ $previous == = ]]; then previous=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
{2}    esac
  done
  case $command/$previous in
{3}    *)
{5}      case $command in
{4}      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F {1} {0}
)",
                     command.name, name, found, values, words,
                     command.runs_program ? "      if [[ $current != -* ]]; then\n"
                                            "        mapfile -t COMPREPLY < <(compgen -c -- \"$current\")\n"
                                            "        return\n"
                                            "      fi\n"
                                          : "");
}

std::string zsh_completion(const Command& command) {
  const std::string name = function_name(command);
  const std::string options = zsh_options(options_of(command), "    ");
  std::string out = fmt::format("#compdef {0}\n# Completion of {0} for zsh, made from its command line\n{1}() {{\n",
                                command.name, name);
  if (command.runs_program) {
    out += fmt::format("  _arguments \\\n{}    '(-)1:program:_command_names -e' \\\n    '*::arguments:_normal'\n",
                       options);
  } else if (command.commands.empty()) {
    out += fmt::format("  _arguments \\\n{}    '*::_default'\n", options);
  } else {
    std::string cases;
    for (const Command& sub : command.commands) {
      cases += fmt::format("        {})\n          _arguments \\\n{}            '*::_default'\n          ;;\n",
                           sub.name, zsh_options(options_of(sub, &command), "            "));
    }
    cases += fmt::format("        *)\n          _arguments \\\n{}            '*::_default'\n          ;;\n",
                         zsh_options(options_of(command), "            "));
    out += fmt::format(R"(  local curcontext=$curcontext state
  local -a line
  typeset -A opt_args
  _arguments -C \
{}    '1: :->command' \
    '*:: :->arguments'
  case $state in
    command)
      local -a commands=(
{}      )
      _describe command commands
      ;;
    arguments)
      case $line[1] in
{}      esac
      ;;
  esac
)",
                       options, zsh_commands(command), cases);
  }
  return out + fmt::format("}}\n{} \"$@\"\n", name);
}

std::string fish_completion(const Command& command) {
  std::string out = fmt::format("# Completion of {} for fish, made from its command line\n", command.name);
  std::string at_first;
  if (!command.commands.empty())
    at_first = fmt::format("not __fish_seen_subcommand_from {}", fmt::join(command_names(command), " "));
  for (const CommandOption& option : options_of(command)) {
    out += fish_option(command.name, command.shares_options ? "" : at_first, option);
  }
  for (const Command& sub : command.commands) {
    out += fmt::format("complete -c {} -n {} -a {} -d {}\n", command.name, fish_quoted(at_first), sub.name,
                       fish_quoted(summary_of(sub)));
    for (const CommandOption& option : options_of(sub)) {
      out += fish_option(command.name, "__fish_seen_subcommand_from " + sub.name, option);
    }
  }
  if (command.runs_program) {
    out += fmt::format("complete -c {} -x -a {}\n", command.name,
                       fish_quoted(fmt::format("(__fish_complete_subcommand -- {})",
                                               fmt::join(names_with_value(options_of(command)), " "))));
  }
  return out;
}

}  // namespace sinew::tools
