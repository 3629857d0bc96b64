#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
class Validator;
}  // namespace CLI

namespace sinew::tools {

enum class Least : std::uint8_t { Is0, Above0 };

/// For option->transform(). They check the text before it becomes a value, and say what was found and expected.
/// one_of() takes '-' for '_' in names.
CLI::Validator number(Least least);
CLI::Validator one_of(std::vector<std::string> names);

/// Gives each option of a program and of its commands the check that its value is not empty: `--from "$UNSET"` must not
/// do what no --from does.
void expect_values(CLI::App& app);

/// Gives an option of a number the check that its text is one, if the option has no check of its own.
void expect_type(CLI::Option& option);

/// The end of a command line that asks for help, or that has a fault. A program has an option --config for a file of
/// options.
struct ParseOutcome {
  int code = 0;        ///< 0: help was asked for. 2: there is a fault
  std::string text{};  ///< the help, or one line that says what was found and expected
};
ParseOutcome outcome_of(const CLI::App& app, const CLI::ParseError& e);

}  // namespace sinew::tools
