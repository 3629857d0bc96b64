#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/version.hpp>
#include <sinew/topology/imagined_cluster.hpp>

#include "../command_line.hpp"
#include "../whole_number.hpp"
#include "report.hpp"

namespace {

using namespace sinew;
using namespace sinew::tools;

struct SimOptions {
  std::string collective, bytes, cluster, algorithm;
  std::string network = "one_switch";
  std::string dtype = "f32";
  int hosts_per_leaf = 32;
  double oversubscription = 1;
  bool json = false;
};

Error wrong(const std::string& message) { return {Code::InvalidArgument, message}; }

NetworkForm form_of(const std::string& name) {
  if (name == name_of(NetworkForm::FatTree)) return NetworkForm::FatTree;
  return name == name_of(NetworkForm::RailOptimised) ? NetworkForm::RailOptimised : NetworkForm::OneSwitch;
}

/// The call whose larger buffer has so many bytes, rounded down to whole elements on each rank.
SimulatedCall call_of(const SimOptions& options, int ranks) {
  const auto collective = collective_from_name(options.collective);
  if (!collective || is_message(*collective) || is_v_form(*collective)) {
    std::vector<std::string_view> names;
    for (int c = 0; c <= static_cast<int>(Collective::Barrier); ++c) {
      if (!is_v_form(static_cast<Collective>(c))) names.push_back(name_of(static_cast<Collective>(c)));
    }
    throw wrong(fmt::format("'{}': expected a collective, one of {}", options.collective, fmt::join(names, ", ")));
  }
  const auto dtype = dtype_from_name(options.dtype);
  if (!dtype) throw wrong(fmt::format("--dtype {}: expected a type such as f32", options.dtype));
  if (options.bytes.empty() != (*collective == Collective::Barrier))
    throw wrong(
        fmt::format("{}: expected {}BYTES, such as 64MiB", options.collective, options.bytes.empty() ? "" : "no "));
  CollectiveDesc desc{.collective = *collective, .dtype = *dtype, .count = 1};
  if (*collective == Collective::Barrier) return {{.collective = *collective}, 0};
  const std::uint64_t least = desc.bytes(ranks), bytes = parse_bytes(options.bytes);
  if (bytes < least) {
    throw wrong(fmt::format("{} of {}: expected {} at least, an element for each of {} ranks", options.collective,
                            options.bytes, format_bytes(least), ranks));
  }
  desc.count = bytes / least;
  return {desc, desc.bytes(ranks)};
}

int simulate_and_print(const SimOptions& options) {
  const NetworkShape shape{form_of(options.network), options.hosts_per_leaf, options.oversubscription};
  const Network network = imagined_cluster(options.cluster, shape).network;
  const SimulatedCall call = call_of(options, network.ranks());
  const bool shows = ::isatty(STDERR_FILENO) == 1;
  const auto ways = simulate_ways(call.desc, network, options.algorithm, [&](const std::string& name) {
    if (shows) std::cerr << fmt::format("\r\033[K{} ...", name) << std::flush;
  });
  if (shows) std::cerr << "\r\033[K" << std::flush;
  std::cout << (options.json ? as_json(call, network, ways) + "\n" : as_table(call, network, ways));
  return std::ranges::any_of(ways, [](const SimulatedWay& w) { return w.rejected.empty(); }) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  SimOptions options;
  CLI::App app("Simulates a collective on a cluster that need not be here, its algorithms side by side.", "sinew-sim");
  app.set_version_flag("--version", "sinew " + std::string(version()));
  app.add_option("COLLECTIVE", options.collective, "all_reduce, all_gather, ...")->required();
  app.add_option("BYTES", options.bytes, "size of the larger buffer, such as 64MiB; a barrier has none");
  app.add_option("--cluster", options.cluster, "machine, by name or file, and hosts: dgx-h100x8, xeon-2s:3+5")
      ->required();
  app.add_option("--network", options.network, "one_switch (default), fat_tree or rail_optimised")
      ->check(CLI::IsMember({"one_switch", "fat_tree", "rail_optimised"}));
  app.add_option("--hosts-per-leaf", options.hosts_per_leaf, "of a fat tree; 32 if not given")
      ->transform(whole_number(1, 1 << 20));
  app.add_option("--oversubscription", options.oversubscription,
                 "of leaf switches: rate of what is below them to that of what is above; 1 if not given");
  app.add_option("--algorithm", options.algorithm, "only this one, such as ring or hierarchical");
  app.add_option("--dtype", options.dtype, "element type, such as f32 (default) or bf16");
  app.add_flag("--json", options.json, "print one JSON object");
  app.footer(
      "Every way runs step by step on a clock, in the segments that the library would cut it into; messages share "
      "links\n"
      "max-min fairly. Of ranks that behave alike one is simulated; the output says which.\n\n"
      "Examples:\n"
      "  sinew-sim all_reduce 1GiB --cluster dgx-h100x128 --network rail_optimised\n"
      "  sinew-sim all_to_all 64MiB --cluster dgx-a100x64 --network fat_tree --hosts-per-leaf 16 --oversubscription 2\n"
      "  sinew-sim all_gather 1GiB --cluster dgx-h200x12500 --algorithm hierarchical --json\n"
      "  sinew-sim all_reduce 64MiB --cluster nccl-topology.xmlx16    hosts as in a file that NCCL wrote\n");
  return run(app, argc, argv, [&] { return simulate_and_print(options); });
}
