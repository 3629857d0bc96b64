#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/tools/common/output_file.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/text/text.hpp>

#include "commands.hpp"
#include "machine_dot.hpp"
#include "machine_picture.hpp"

namespace sinew::tools {

void print_topology(const InfoOptions& options, const TopologyOptions& topology) {
  const Machine machine = topology.from.empty() ? discover() : described_machine(topology.from);
  OutputFile svg("--svg", topology.svg), dot("--dot", topology.dot);
  const bool prints = leaves_standard_output({&svg, &dot}, options.json);
  if (svg.wanted()) svg.write(machine_picture(machine));
  if (dot.wanted()) dot.write(machine_dot(machine));
  if (prints) std::cout << (options.json ? to_json(machine) + "\n" : to_text(machine));
}

void add_topology_command(CLI::App& app, const InfoOptions& options) {
  static TopologyOptions topology;
  CLI::App* command =
      app.add_subcommand("topology", "Processors, memory, caches, PCI, GPUs and networks of this machine or another");
  command->add_option(
      "--from", topology.from,
      fmt::format("instead of this machine, a file (hwloc XML, NCCL or RCCL topology XML, this command's JSON) or "
                  "one of {}",
                  fmt::join(machine_names(), ", ")));
  command->add_option("--svg", topology.svg, "a picture into this file too, for browsers; - is standard output");
  command->add_option("--dot", topology.dot, "a graph for Graphviz into this file too; - is standard output");
  command->callback([&options] { print_topology(options, topology); });
}

}  // namespace sinew::tools
