#include "option_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/shown_value.hpp>

namespace sinew::tools {
namespace {

/// The number of the line of a file of options that begins with this name. 0: there is none.
int line_of(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line.compare(begin, name.size(), name) == 0) return number;
  }
  return 0;
}

/// CLI11 says "INI was not able to parse zeros".
std::string fault_in_file(const CLI::App& app, const std::string& said) {
  const std::string file = app.get_option("--config")->as<std::string>(), name = said.substr(said.rfind(' ') + 1);
  const int line = line_of(file, name);
  if (line == 0) return fmt::format("--config {}: {}", file, said);
  return fmt::format("--config {}, line {}: {}: no such option; --help lists them", file, line, name);
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && read == end && std::isfinite(value) ? std::optional(value) : std::nullopt;
}
std::string any_number(std::string& text) {
  return number_in(text) ? "" : fmt::format("'{}': expected a number", shown_value(text));
}
/// Checks a number that an int can hold.
std::string whole(std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (read != end || error == std::errc::invalid_argument)
    return fmt::format("'{}': expected a whole number", shown_value(text));
  if (error == std::errc{}) return {};
  return fmt::format("'{}': expected a whole number, {} at most", shown_value(text), std::numeric_limits<int>::max());
}

}  // namespace

CLI::Validator number(Least least) {
  const auto check = [least](std::string& text) -> std::string {
    const std::optional<double> value = number_in(text);
    if (value && (*value > 0 || (*value == 0 && least == Least::Is0))) return {};
    return fmt::format("'{}': expected a number, {}", shown_value(text), least == Least::Is0 ? "0 or more" : "above 0");
  };
  return {check, least == Least::Is0 ? "0 or more" : "above 0"};
}

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  const auto check = [names = std::move(names), all](std::string& text) -> std::string {
    std::string other = text;
    std::ranges::replace(other, '-', '_');
    const auto found = std::ranges::find_if(names, [&](const std::string& n) { return n == text || n == other; });
    if (found == names.end()) return fmt::format("'{}': expected one of {}", shown_value(text), all);
    text = *found;
    return {};
  };
  return {check, all};
}

void expect_values(CLI::App& app) {
  const CLI::Validator some([](std::string& value) { return value.empty() ? "expected a value, found none" : ""; }, "");
  for (CLI::Option* option : app.get_options()) option->check(some);
  for (CLI::App* command : app.get_subcommands({})) expect_values(*command);
}

void expect_type(CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type == "INT") option.transform({whole, ""});
  if (type == "FLOAT") option.transform({any_number, ""});
}

ParseOutcome outcome_of(const CLI::App& app, const CLI::ParseError& e) {
  if (dynamic_cast<const CLI::Success*>(&e) != nullptr) {
    std::ostringstream out, err;
    app.exit(e, out, err);
    return {0, out.str()};
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    const std::vector<std::string> found = app.remaining(true);
    const std::string first = found.empty() ? "" : found.front();
    return {2, first.starts_with('-') ? first + ": no such option; --help lists them" : first + ": expected an option"};
  }
  if (dynamic_cast<const CLI::ConfigError*>(&e) != nullptr) return {2, fault_in_file(app, e.what())};
  if (dynamic_cast<const CLI::FileError*>(&e) != nullptr)
    return {2, fmt::format("--config {}: it cannot be read", app.get_option("--config")->as<std::string>())};
  return {2, e.what()};
}

}  // namespace sinew::tools
