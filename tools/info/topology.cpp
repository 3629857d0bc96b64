#include <iostream>

#include <CLI/CLI.hpp>

#include <sinew/topology/discover.hpp>
#include <sinew/topology/json.hpp>
#include <sinew/topology/text.hpp>

#include "commands.hpp"

namespace sinew::tools {

void print_topology(const InfoOptions& options) {
  const Machine machine = discover();
  std::cout << (options.json ? to_json(machine) + "\n" : to_text(machine));
}

void add_topology_command(CLI::App& app, const InfoOptions& options) {
  CLI::App* command =
      app.add_subcommand("topology", "Processors, memory, caches, PCI, GPUs and networks of this machine");
  command->callback([&options] { print_topology(options); });
}

}  // namespace sinew::tools
