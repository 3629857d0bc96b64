#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/base/table.hpp>
#include <sinew/core/config.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "commands.hpp"

namespace sinew::tools {
namespace {

void print_json(const std::vector<ConfigEntry>& entries) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ConfigEntry& e : entries) {
    out.push_back({{"name", std::string(e.name)},
                   {"value", e.value},
                   {"set", e.set},
                   {"expected", std::string(e.expected)},
                   {"meaning", std::string(e.meaning)}});
  }
  std::cout << json_text(out, 2) << "\n";
}

void print_text(const std::vector<ConfigEntry>& entries) {
  Table table({{.name = "variable"}, {.name = "value"}, {.name = "from"}, {.name = "meaning (takes)"}});
  for (const ConfigEntry& e : entries) {
    table.add({std::string(e.name), e.value.empty() ? "-" : e.value, e.set ? "set" : "default",
               fmt::format("{} ({})", e.meaning, e.expected)});
  }
  std::cout << table.text();
}

}  // namespace

void add_config_command(CLI::App& app, const InfoOptions& options) {
  CLI::App* command = app.add_subcommand("config", "Every SINEW_* variable: what it takes and what is in effect");
  command->callback([&options] {
    const std::vector<ConfigEntry> entries = describe(Config::from_environment());
    options.json ? print_json(entries) : print_text(entries);
  });
}

}  // namespace sinew::tools
