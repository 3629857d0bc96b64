#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace sinew::bench {

/// What a number on the command line may be, both ends included.
struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
constexpr Limits kPositive{.least = 1};

/// The command line of a benchmark. Only this class' source includes CLI11, which takes longer to compile than most
/// benchmarks do.
///
/// Options are named as "-n,--ranks". A variable's value is what it keeps where its option is not given.
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
  /// One of `words`.
  CommandLine& word(const char* names, std::string& value, const char* text, const std::vector<std::string>& words);
  /// Several sizes in bytes, as 8 or 64KiB.
  CommandLine& sizes(const char* names, std::vector<std::uint64_t>& values, const char* text);
  /// The option named last must be given.
  CommandLine& required();

  /// Ends the program with 0 after --help, and with another code after one line on stderr where something is wrong.
  void parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace sinew::bench
