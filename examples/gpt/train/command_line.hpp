#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace gpt {

// What is wrong on the command line, in the words of sinew's tools: "gpt: --heads: 'x': expected a whole number, ...".

enum class Least : std::uint8_t { Is0, Above0 };

/// For option->transform(): before the text becomes a value.
CLI::Validator number(Least least);
/// '-' is '_' in names that have that.
CLI::Validator one_of(std::vector<std::string> names);

/// Gives an option of a number the check that its text is one, where it has no check of its own.
void expect_type(CLI::Option& option);

/// Errors: throws NoRun: with 2 for what is wrong, a line that says it; with 0 for help.
void parse(CLI::App& app, int argc, char** argv);
/// Errors: throws NoRun with 2.
[[noreturn]] void refuse(const std::string& why);

}  // namespace gpt
