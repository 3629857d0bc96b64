#include "command_line.hpp"

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/pages/page.hpp>

#include "option_values.hpp"
#include "standard_streams.hpp"

namespace sinew::tools {
namespace {

constexpr int kBadInput = 2;
/// Before a rank that leaves the word to another one ends: its launcher would end that one, too, unheard.
constexpr auto kSilence = std::chrono::seconds(2);

/// One line whatever the message; the library's messages may have several.
int complain(const CLI::App& app, std::string message, int exit_code) {
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  std::cerr << fmt::format("{}: {}\n", app.get_name(), message);
  return exit_code;
}

/// "topologie: expected one of topology, config".
std::string unexpected(CLI::App& app) {
  const std::vector<std::string> found = app.remaining(true);
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) commands.push_back(command->get_name());  // else it is hidden
  }
  const std::string first = found.empty() ? "" : found.front();
  if (first.starts_with('-')) return fmt::format("{}: no such option; --help lists them", first);
  if (commands.empty() || !app.get_subcommands().empty()) return fmt::format("{}: expected nothing more", first);
  return fmt::format("{}: expected one of {}", first, fmt::join(commands, ", "));
}

/// The usage of a program that starts another one. The library leaves the other one out.
class UsageWithProgram : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return fmt::format("Usage: {} [OPTIONS] PROGRAM ARGS...\n", name);
  }
};

int answer(CLI::App& app, int argc, char** argv, const std::function<int()>& job, std::optional<int> rank) {
  const bool speaks = rank.value_or(0) == 0;
  const std::string who = rank ? fmt::format("rank {}: ", *rank) : "";
  const auto bad_input = [&](const std::string& message) {
    if (speaks) return complain(app, message, kBadInput);
    std::this_thread::sleep_for(kSilence);
    return kBadInput;
  };
  try {
    if (const std::string_view kind = asked_page(argc, argv); !kind.empty()) {
      print_page(app, kind);
      return 0;
    }
    expect_values(app);
    app.parse(argc, argv);
    return job ? job() : 0;
  } catch (const CLI::ExtrasError&) {
    return bad_input(unexpected(app));
  } catch (const CLI::Success& done) {
    return speaks ? app.exit(done) : 0;
  } catch (const CLI::ParseError& error) {
    return bad_input(error.what());
  } catch (const UsageError& error) {
    return bad_input(error.what());
  } catch (const Error& error) {
    return complain(app, who + error.what(), error.code() == Code::InvalidArgument ? kBadInput : 1);
  } catch (const std::exception& error) {
    return complain(app, who + error.what(), 1);
  }
}

}  // namespace

int run(CLI::App& app, int argc, char** argv, const std::function<int()>& job, std::optional<int> rank) {
  open_missing_streams();
  if (app.get_prefix_command()) app.formatter(std::make_shared<UsageWithProgram>());
  const int exit_code = answer(app, argc, argv, job, rank);
  const bool arrived = output_arrived(app.get_name());
  return exit_code == 0 && !arrived ? 1 : exit_code;
}

std::optional<int> rank_of_process() noexcept {
  try {
    return rank_in_job();
  } catch (const std::exception&) {
    return std::nullopt;  // whoever makes a World is told
  }
}

}  // namespace sinew::tools
