#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/json.hpp>
#include <sinew/topology/named_machines.hpp>
#include <sinew/topology/text.hpp>

#include "commands.hpp"

namespace sinew::tools {

void print_topology(const InfoOptions& options, const std::string& from) {
  const Machine machine = from.empty() ? discover() : described_machine(from);
  std::cout << (options.json ? to_json(machine) + "\n" : to_text(machine));
}

void add_topology_command(CLI::App& app, const InfoOptions& options) {
  static std::string from;
  CLI::App* command =
      app.add_subcommand("topology", "Processors, memory, caches, PCI, GPUs and networks of this machine or another");
  command->add_option(
      "--from", from,
      fmt::format("instead of this machine, a file (hwloc XML, NCCL topology XML, this command's JSON) or "
                  "one of {}",
                  fmt::join(machine_names(), ", ")));
  command->callback([&options] { print_topology(options, from); });
}

}  // namespace sinew::tools
