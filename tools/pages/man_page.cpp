#include "man_page.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/base/version.hpp>

namespace sinew::tools {
namespace {

/// Text for roff: a hyphen that is typed, no escapes, and no line that begins a request.
std::string roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

/// Writes lines of plain text. Indented lines keep their layout, all others are filled. A line "Examples:" begins a
/// section where `sections` is set, and so does the first text after the examples.
class Text {
 public:
  Text(std::string& out, bool sections) : out_(out), sections_(sections) {}

  void write(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      write_line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    keep_layout(false);
  }

 private:
  void write_line(std::string_view line) {
    if (line.empty()) {
      keep_layout(false);
      breaks_ = true;
      return;
    }
    if (line == "Examples:" && sections_) {
      begin_section("EXAMPLES");
      return;
    }
    keep_layout(line.starts_with(' '));
    if (breaks_ && sections_ && !keeps_ && section_ != "NOTES") begin_section("NOTES");
    if (breaks_) out_ += ".PP\n";
    breaks_ = false;
    out_ += roff(line) + '\n';
  }

  void begin_section(std::string_view name) {
    keep_layout(false);
    section_ = name;
    breaks_ = false;
    out_ += fmt::format(".SH {}\n", name);
  }

  void keep_layout(bool keeps) {
    if (keeps == keeps_) return;
    out_ += keeps ? ".nf\n" : ".fi\n";
    keeps_ = keeps;
  }

  std::string& out_;
  bool sections_;
  std::string section_;
  bool keeps_ = false;
  bool breaks_ = false;
};

void write_text(std::string& out, std::string_view text) { Text(out, false).write(text); }

void write_option(std::string& out, const CommandOption& option) {
  out += ".TP\n";
  std::string names;
  for (const std::string& name : option.names) {
    if (!names.empty()) names += ", ";
    names += fmt::format("\\fB{}\\fR", roff(name));
  }
  out += names;
  if (!option.form.empty()) out += ' ' + roff(option.form);
  out += '\n';
  write_text(out, option.description);
}

void write_options(std::string& out, const Command& command) {
  for (const CommandOption& option : command.options) {
    if (option.is_positional) write_option(out, option);
  }
  for (const CommandOption& option : command.options) {
    if (!option.is_positional) write_option(out, option);
  }
}

std::string synopsis_of(const Command& command) {
  std::string out = fmt::format("\\fB{}\\fR [OPTIONS]", roff(command.name));
  for (const CommandOption& option : command.options) {
    if (!option.is_positional) continue;
    const std::string name = roff(option.names.front());
    out += option.is_required ? ' ' + name : fmt::format(" [{}]", name);
  }
  if (command.runs_program) out += " PROGRAM [ARGS...]";
  if (!command.commands.empty()) out += " [COMMAND [OPTIONS]]";
  return out + '\n';
}

void write_footer(std::string& out, const Command& command) {
  if (command.footer.empty()) return;
  if (!command.footer.starts_with("Examples:")) out += ".SH NOTES\n";
  Text(out, true).write(command.footer);
}

}  // namespace

std::string man_page(const Command& command) {
  std::string out = fmt::format(".TH {} 1 \"\" \"sinew {}\" \"sinew\"\n", upper(command.name), version());
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff(command.name), roff(summary_of(command)));
  out += ".SH SYNOPSIS\n" + synopsis_of(command);
  out += ".SH DESCRIPTION\n";
  write_text(out, text_of(command));
  out += ".SH OPTIONS\n";
  write_options(out, command);
  if (!command.commands.empty()) out += ".SH COMMANDS\n";
  for (const Command& sub : command.commands) {
    out += fmt::format(".SS {} {}\n", roff(command.name), roff(sub.name));
    write_text(out, sub.description);
    write_options(out, sub);
    if (sub.footer.empty() || sub.footer == command.footer) continue;
    out += ".PP\n";
    write_text(out, sub.footer);
  }
  write_footer(out, command);
  return out;
}

}  // namespace sinew::tools
