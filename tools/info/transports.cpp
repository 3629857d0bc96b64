#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/world.hpp>

#include "commands.hpp"

namespace sinew::tools {
namespace {

void print_json(const World& world) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const TransportStatus& t : world.transports()) {
    nlohmann::ordered_json row = {{"name", t.name}, {"ok", t.ok}};
    if (!t.reason.empty()) row["reason"] = t.reason;
    row["collectives"] = t.ok && t.offload.empty();
    if (!t.offload.empty()) row["no_collectives"] = t.offload;
    out.push_back(std::move(row));
  }
  std::cout << out.dump(2) << "\n";
}

void print_text(const World& world) {
  for (const TransportStatus& t : world.transports()) {
    const std::string collectives = t.offload.empty() ? "messages and whole collectives" : "messages";
    std::cout << fmt::format("{:<10} {:<4} {}\n", t.name, t.ok ? "ok" : "no", t.ok ? collectives : t.reason);
  }
  std::cout << world.facts();
}

}  // namespace

void add_transports_command(CLI::App& app, const InfoOptions& options) {
  CLI::App* command = app.add_subcommand("transports", "Every transport: usable, or why not; and what reaches whom");
  command->callback([&options] {
    const World world = World::from_environment();
    if (world.rank() == 0) options.json ? print_json(world) : print_text(world);
  });
}

}  // namespace sinew::tools
