#include "command_line.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include <CLI/CLI.hpp>

namespace sinew::bench {

namespace {

constexpr double kMostBytes = 1ULL << 36;

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
    if constexpr (std::is_floating_point_v<Number>) {
      last->check([](const std::string& given) {
        return std::isfinite(std::strtod(given.c_str(), nullptr)) ? "" : given + ": expected a finite number";
      });
    }
    if (limits.least != Limits().least || limits.most != Limits().most)
      last->check(CLI::Range(limits.least, limits.most));
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
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(parser_->app.exit(error));  // --help
    const std::string program(argv[0]);
    std::fprintf(stderr, "%s: %s\n", program.substr(program.rfind('/') + 1).c_str(), error.what());
    std::exit(2);
  }
}

}  // namespace sinew::bench
