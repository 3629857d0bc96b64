#include "command.hpp"

#include <algorithm>
#include <cstddef>

#include <CLI/CLI.hpp>

namespace sinew::tools {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The words of "TEXT:{f32,bf16}", "TEXT:end|continue" and "none|bf16". Words in capitals stand for a value and are
/// left out.
std::vector<std::string> values_of(std::string_view type) {
  type.remove_prefix(type.find(':') == std::string_view::npos ? 0 : type.find(':') + 1);
  std::vector<std::string> words;
  if (type.starts_with('{') && type.ends_with('}'))
    words = split(type.substr(1, type.size() - 2), ',');
  else if (type.find('|') != std::string_view::npos)
    words = split(type, '|');
  const auto is_no_word = [](const std::string& word) {
    return word.empty() || std::ranges::any_of(word, [](char c) { return (c >= 'A' && c <= 'Z') || c == ' '; });
  };
  std::erase_if(words, is_no_word);
  return words;
}

CommandOption option_of(const CLI::Option& option) {
  CommandOption o;
  o.is_positional = option.get_positional();
  if (o.is_positional) {
    o.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) o.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) o.names.push_back("--" + name);
  }
  o.takes_value = option.get_items_expected_max() > 0;
  o.is_required = option.get_required();
  o.form = CLI::Formatter{}.make_option_opts(&option);
  o.form.erase(0, o.form.find_first_not_of(' '));
  o.description = option.get_description();
  if (o.takes_value) o.values = values_of(option.get_type_name());
  return o;
}

}  // namespace

Command command_of(const CLI::App& app) {
  Command c{.name = app.get_name(), .description = app.get_description(), .footer = app.get_footer()};
  c.runs_program = app.get_prefix_command();
  c.shares_options = app.get_fallthrough();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) c.options.push_back(option_of(*option));
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) c.commands.push_back(command_of(*command));
  }
  return c;
}

std::string text_of(const Command& command) {
  const std::string& text = command.description;
  return text.starts_with(command.name) ? text.substr(std::min(text.find('\n'), text.size() - 1) + 1) : text;
}

std::string summary_of(const Command& command) {
  std::string text = text_of(command);
  std::ranges::replace(text, '\n', ' ');
  std::string sentence = text.substr(0, text.find(". "));
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

}  // namespace sinew::tools
