#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace sinew::bench {

/// The least and the greatest number that an option accepts.
struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
constexpr Limits kPositive{.least = 1};

/// The options of a benchmark. Only command_line.cpp includes CLI11, because compiling CLI11 takes longer than
/// compiling most benchmarks.
///
/// Option names are given as "-n,--ranks". A variable keeps its value if its option is not on the command line.
class CommandLine {
 public:
  explicit CommandLine(const char* purpose);
  ~CommandLine();

  CommandLine& option(const char* names, int& value, const char* text, Limits limits = {});
  CommandLine& option(const char* names, std::int64_t& value, const char* text, Limits limits = {});
  CommandLine& option(const char* names, std::uint64_t& value, const char* text, Limits limits = {});
  CommandLine& option(const char* names, double& value, const char* text, Limits limits = {});
  CommandLine& option(const char* names, std::string& value, const char* text);
  CommandLine& flag(const char* name, bool& value, const char* text);
  /// The value must be one of `words`.
  CommandLine& word(const char* names, std::string& value, const char* text, const std::vector<std::string>& words);
  /// Accepts several sizes in bytes, such as 8 or 64KiB, up to 64 GiB each.
  CommandLine& sizes(const char* names, std::vector<std::uint64_t>& values, const char* text);
  /// Makes the option that was added last mandatory.
  CommandLine& required();

  /// Ends the program after --help, and after bad input, as tools::run() does.
  void parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace sinew::bench
