#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/tools/common/output_file.hpp>
#include <sinew/tools/common/progress.hpp>
#include <sinew/tools/pages/page.hpp>
#include <sinew/tools/version/version_text.hpp>
#include <sinew/topology/catalog/named_networks.hpp>
#include <sinew/topology/virtual_cluster.hpp>

#include "picture.hpp"
#include "report.hpp"
#include "scale.hpp"
#include "scale_report.hpp"
#include "trace.hpp"
#include "train_command.hpp"

namespace {

using namespace sinew;
using namespace sinew::tools;

struct SimOptions {
  std::string collective, bytes, cluster, algorithm, scale;
  std::string svg, trace;  // files
  std::string dtype = "f32";
  NetworkShape network;
  bool json = false;
};

Error wrong(const std::string& message) { return {Code::InvalidArgument, message}; }

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
    throw wrong(options.bytes.empty() ? fmt::format("{}: expected BYTES, such as 64MiB", options.collective)
                                      : fmt::format("barrier {}: expected no BYTES", options.bytes));
  CollectiveDesc desc{.collective = *collective, .dtype = *dtype, .count = 1};
  if (*collective == Collective::Barrier) return {{.collective = *collective}, 0};
  const std::uint64_t least = desc.bytes(ranks), bytes = parse_bytes(options.bytes);
  if (bytes < least) {
    throw wrong(fmt::format("{} of {}: expected {} at least, an element for each of {} ranks", options.collective,
                            options.bytes, format_bytes(least), ranks));
  }
  if (bytes > PTRDIFF_MAX) {
    throw wrong(fmt::format("{} of {}: more than the {} bytes of an address space", options.collective, options.bytes,
                            PTRDIFF_MAX));
  }
  desc.count = bytes / least;
  return {desc, desc.bytes(ranks)};
}

int simulate_and_print(const SimOptions& options, OutputFile& svg, OutputFile& trace, bool prints) {
  const VirtualCluster on = virtual_cluster_from(options.cluster, options.network);
  const Network& network = on.network;
  const SimulatedCall call = call_of(options, network.ranks());
  Progress progress;
  const ShowBegin begins = [&](const std::string& what, double share) { progress.show_share(share, what); };
  std::vector<SimulatedWay> ways = simulate_ways(call.desc, network, options.algorithm, begins);
  SimulatedWay& fastest = ways.front();
  const bool any = fastest.rejected.empty(), draws = svg.wanted() || trace.wanted();
  if (any && draws) {
    progress.show_share(1, "time line of " + full_name(fastest));
    fastest.forecast = simulate(*fastest.recipe, call.desc, network, {.time_line = true, .link_bytes = svg.wanted()});
  }
  progress.clear();
  if (prints) std::cout << (options.json ? as_json(call, on, ways) + "\n" : as_table(call, on, ways));
  if (!any && draws) {
    throw Error(Code::Unavailable, fmt::format("nothing to draw: {}: {}: {}", heading(call, network),
                                               full_name(fastest), fastest.rejected));
  }
  if (svg.wanted()) svg.write(picture_of(call, network, fastest));
  if (trace.wanted()) {
    trace.write([&](std::ostream& to) {
      write_trace(to, fmt::format("{}: {}", heading(call, network), full_name(fastest)), fastest.forecast);
    });
  }
  return any ? 0 : 1;
}

int scale_and_print(const SimOptions& options, OutputFile& svg, bool prints) {
  const HostModel& host = host_model(options.cluster);
  Progress progress;
  const Scale scale = simulate_scale(
      host, hosts_of_scale(options.scale, host),
      [&](int hosts) {
        return virtual_cluster_from(fmt::format("{}x{}", options.cluster, hosts), options.network).network;
      },
      [&](int ranks) { return call_of(options, ranks); }, options.algorithm,
      [&](const std::string& what, double share) { progress.show_share(share, what); });
  progress.clear();
  if (prints) std::cout << (options.json ? as_json(scale) + "\n" : as_table(scale));
  if (svg.wanted()) svg.write(as_plot(scale));
  return scale.names().empty() ? 1 : 0;
}

int simulate_and_print(const SimOptions& options) {
  if (!options.scale.empty() && !options.trace.empty())
    throw wrong("--trace: expected one number of hosts, not --scale");
  OutputFile svg("--svg", options.svg), trace("--trace", options.trace);
  const bool prints = leaves_standard_output({&svg, &trace}, options.json);
  return options.scale.empty() ? simulate_and_print(options, svg, trace, prints)
                               : scale_and_print(options, svg, prints);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "train") return train_command(argc - 1, argv + 1);
  SimOptions options;
  CLI::App app("Simulates a collective on a cluster that need not be here, its algorithms side by side.", "sinew-sim");
  app.set_version_flag("--version", version_text());
  app.add_option("COLLECTIVE", options.collective, "all_reduce, all_gather, ...")->required();
  app.add_option("BYTES", options.bytes, "size of the larger buffer, such as 64MiB; a barrier has none");
  CLI::Option* cluster =
      app.add_option("--cluster", options.cluster,
                     "machine, by name or file, and hosts: dgx-h100x8, xeon-2s:3+5; with --scale the name alone")
          ->required();
  add_network_options(app, cluster, options.network);
  app.add_option("--scale", options.scale, "sweep from so many ranks to so many, such as 8..100000, by factors of two");
  app.add_option("--algorithm", options.algorithm, "only this one, such as ring or hierarchical");
  app.add_option("--dtype", options.dtype, "element type, such as f32 (default) or bf16");
  app.add_option(
      "--svg", options.svg,
      "a picture of the fastest way into this file too: cluster, traffic and time line; with --scale a plot; "
      "- is standard output");
  app.add_option("--trace", options.trace, "its time line for chrome://tracing and Perfetto into this file too");
  app.add_flag("--json", options.json, "print one JSON object");
  app.footer(
      "Every way runs step by step on a clock, in the segments that the library would cut it into; messages share "
      "links\n"
      "max-min fairly. Of ranks that behave alike one is simulated; the output says which.\n\n"
      "Examples:\n"
      "  sinew-sim all_reduce 1GiB --cluster dgx-h100x128 --network rail_optimised\n"
      "  sinew-sim all_to_all 64MiB --cluster dgx-a100x64 --network fat_tree --hosts-per-leaf 16 --oversubscription 2\n"
      "  sinew-sim all_gather 1GiB --cluster dgx-h200x12500 --algorithm hierarchical --json\n"
      "  sinew-sim all_reduce 64MiB --cluster nccl-topology.xmlx16    hosts as in a file that NCCL wrote\n"
      "  sinew-sim all_reduce 64MiB --cluster dgx-h100x8 --algorithm ring --svg ring.svg --trace ring.json\n"
      "  sinew-sim all_reduce 1MiB --cluster dgx-h100 --network fat_tree --scale 8..100000 --svg plot.svg\n\n"
      "sinew-sim train --model gpt3-175b --cluster dgx-h100x64 plans a training job: sinew-sim train --help\n");
  if (!asked_page(argc, argv).empty()) add_train_command(app);
  return run(app, argc, argv, [&] { return simulate_and_print(options); });
}
