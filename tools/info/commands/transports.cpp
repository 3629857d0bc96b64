#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/table.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/json_text.hpp>
#include <sinew/transports/registry.hpp>

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
    if (!t.no_device.empty()) row["no_device_memory"] = t.no_device;
    if (!t.left_alone.empty()) row["left_alone"] = t.left_alone;
    out.push_back(std::move(row));
  }
  std::cout << json_text(out, 2) << "\n";
}

/// Of each host which ranks are nearest to which NIC.
void print_nics(const Cluster& cluster) {
  std::map<std::pair<int, int>, std::vector<std::size_t>> users;
  for (std::size_t r = 0; r < cluster.ranks.size(); ++r) {
    const RankSpot& spot = cluster.ranks[r];
    if (spot.nic >= 0) users[{spot.host, spot.nic}].push_back(r);
  }
  for (const auto& [place, ranks] : users) {
    const Machine& host = cluster.hosts[static_cast<std::size_t>(place.first)];
    std::cout << fmt::format("{}: NIC {} of rank{} {}: {}\n", host.host_name,
                             host.nics[static_cast<std::size_t>(place.second)].name, ranks.size() == 1 ? "" : "s",
                             fmt::join(ranks, " "), cluster.ranks[ranks.front()].nic_why);
  }
}

void print_text(const World& world) {
  Table table({Column{}, {}, {}});
  for (const TransportStatus& t : world.transports()) {
    std::string use = t.offload.empty() ? "messages and whole collectives" : "messages";
    if (!t.reason.empty()) use += " over " + t.reason;
    if (!t.left_alone.empty()) use += "; used only when asked for by name: " + t.left_alone;
    if (!t.no_device.empty()) use += "; device memory through the host: " + t.no_device;
    table.add({t.name, t.ok ? "ok" : "no", t.ok ? use : t.reason});
  }
  std::cout << table.text();
  try {
    print_nics(world.cluster());
  } catch (const Error& e) {
    std::cout << e.what() << "\n";
  }
  std::cout << world.facts();
}

}  // namespace

void add_transports_command(CLI::App& app, const InfoOptions& options) {
  CLI::App* command = app.add_subcommand("transports", "Every transport: usable, or why not; and what reaches whom");
  command->callback([&options] {
    WorldOptions all;
    if (all.config.transports.empty()) all.config.transports = module_names(all.config);
    const World world = World::from_environment(all);
    if (world.rank() == 0) options.json ? print_json(world) : print_text(world);
  });
}

}  // namespace sinew::tools
