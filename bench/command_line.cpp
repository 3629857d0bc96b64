#include "command_line.hpp"

#include <cmath>
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sinew/tools/common/command_line.hpp>

namespace sinew::bench {
namespace {

constexpr double kMostBytes = 1ULL << 36;

/// "expected 1 to 64", "expected at least 1", or "expected a number".
std::string expected(Limits limits) {
  const bool has_least = std::isfinite(limits.least), has_most = std::isfinite(limits.most);
  if (has_least && has_most) return fmt::format("expected {} to {}", limits.least, limits.most);
  return has_least ? fmt::format("expected at least {}", limits.least) : "expected a number";
}

}  // namespace

struct CommandLine::Parser {
  CLI::App app;
  CLI::Option* last = nullptr;

  template <class Value>
  void add(const char* names, Value& value, const char* text) {
    last = app.add_option(names, value, text)->capture_default_str();
  }
  template <class Number>
  void number(const char* names, Number& value, const char* text, Limits limits) {
    add(names, value, text);
    last->check([limits](const std::string& given) {
      char* end = nullptr;
      const double number = std::strtod(given.c_str(), &end);
      const bool fits = *end == '\0' && std::isfinite(number) && number >= limits.least && number <= limits.most;
      return fits ? std::string() : fmt::format("{}: {}", given, expected(limits));
    });
  }
};

CommandLine::CommandLine(const char* purpose) : parser_(new Parser{.app = CLI::App(purpose)}) {}
CommandLine::~CommandLine() = default;

CommandLine& CommandLine::option(const char* names, int& value, const char* text, Limits limits) {
  parser_->number(names, value, text, limits);
  return *this;
}

CommandLine& CommandLine::option(const char* names, std::int64_t& value, const char* text, Limits limits) {
  parser_->number(names, value, text, limits);
  return *this;
}

CommandLine& CommandLine::option(const char* names, std::uint64_t& value, const char* text, Limits limits) {
  parser_->number(names, value, text, limits);
  return *this;
}

CommandLine& CommandLine::option(const char* names, double& value, const char* text, Limits limits) {
  parser_->number(names, value, text, limits);
  return *this;
}

CommandLine& CommandLine::option(const char* names, std::string& value, const char* text) {
  parser_->add(names, value, text);
  return *this;
}

CommandLine& CommandLine::flag(const char* name, bool& value, const char* text) {
  parser_->last = parser_->app.add_flag(name, value, text);
  return *this;
}

CommandLine& CommandLine::word(const char* names, std::string& value, const char* text,
                               const std::vector<std::string>& words) {
  parser_->add(names, value, text);
  parser_->last->check(CLI::IsMember(words));
  return *this;
}

CommandLine& CommandLine::sizes(const char* names, std::vector<std::uint64_t>& values, const char* text) {
  parser_->add(names, values, text);
  parser_->last->transform(CLI::AsSizeValue(false))->check([](const std::string& given) {
    const double bytes = std::strtod(given.c_str(), nullptr);
    return bytes >= 0 && bytes <= kMostBytes ? "" : given + ": expected bytes, 64GiB at most, such as 8 or 64KiB";
  });
  return *this;
}

CommandLine& CommandLine::required() {
  parser_->last->required();
  return *this;
}

void CommandLine::parse(int argc, char** argv) {
  const std::string path(argv[0]);
  parser_->app.name(path.substr(path.rfind('/') + 1));
  bool goes_on = false;  // false after --help
  const int exit_code = tools::run(parser_->app, argc, argv, [&] {
    goes_on = true;
    return 0;
  });
  if (!goes_on) std::exit(exit_code);
}

}  // namespace sinew::bench
