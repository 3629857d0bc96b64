#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/machine_rates.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/catalog/named_networks.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/virtual_cluster.hpp>

namespace sinew {
namespace {

struct Asked {
  std::string machine;
  int hosts = 1;
  std::vector<int> ranks_on;  ///< empty: as many as usual
};

std::optional<int> number_in(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

/// Of "3+5"; empty: it is something else.
std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  while (true) {
    const std::size_t plus = std::min(text.find('+'), text.size());
    const auto number = number_in(text.substr(0, plus));
    if (!number) return {};
    numbers.push_back(*number);
    if (plus == text.size()) return numbers;
    text.remove_prefix(plus + 1);
  }
}

Asked asked_for(const std::string& text) {
  std::error_code failed;
  if (std::filesystem::is_regular_file(text, failed)) return {text, 1, {}};
  if (const std::size_t colon = text.rfind(':'); colon != std::string::npos) {
    std::vector<int> ranks_on = numbers_in(std::string_view(text).substr(colon + 1));
    if (!ranks_on.empty()) return {text.substr(0, colon), static_cast<int>(ranks_on.size()), std::move(ranks_on)};
  }
  if (const std::size_t x = text.rfind('x'); x != std::string::npos) {
    if (const auto hosts = number_in(std::string_view(text).substr(x + 1))) return {text.substr(0, x), *hosts, {}};
  }
  throw Error(
      Code::InvalidArgument,
      fmt::format("'{}': expected a machine, 'x' and a number of hosts, {} at most, such as dgx-h100x8, or ':' and "
                  "the ranks on each host, such as xeon-2s:3+5; a machine is a file or one of {}",
                  shown_value(text), std::numeric_limits<int>::max(), fmt::join(machine_names(), ", ")));
}

bool has_name(std::string_view machine) {
  return std::ranges::find(host_models(), machine, &HostModel::name) != host_models().end();
}

/// What is said of leaves that are not there would change nothing.
void require_leaves(const NetworkShape& shape) {
  if (shape.hosts_per_leaf && shape.form != NetworkForm::FatTree) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} hosts per leaf: expected {}, which has leaves of hosts, not {}", *shape.hosts_per_leaf,
                            name_of(NetworkForm::FatTree), name_of(shape.form)));
  }
  if (shape.oversubscription && shape.form == NetworkForm::OneSwitch) {
    throw Error(Code::InvalidArgument, fmt::format("oversubscription {}: expected {} or {}, which have leaves, not {}",
                                                   *shape.oversubscription, name_of(NetworkForm::FatTree),
                                                   name_of(NetworkForm::RailOptimised), name_of(shape.form)));
  }
}

Network joined(const HostModel& host, int hosts, const NetworkShape& shape) {
  constexpr int kUsualLeaf = 32;
  require_leaves(shape);
  const double oversubscription = shape.oversubscription.value_or(1);
  switch (shape.form) {
    case NetworkForm::OneSwitch: return one_switch(host, hosts);
    case NetworkForm::FatTree:
      return fat_tree(host, hosts, shape.hosts_per_leaf.value_or(kUsualLeaf), oversubscription);
    case NetworkForm::RailOptimised: return rail_optimised(host, hosts, oversubscription);
  }
  return {};
}

void require_ranks(const Asked& asked, const std::string& text) {
  const auto none = std::ranges::find(asked.ranks_on, 0);
  if (none == asked.ranks_on.end()) return;
  throw Error(Code::InvalidArgument,
              fmt::format("'{}': host {} of 0 ranks: expected 1 at least", text, none - asked.ranks_on.begin()));
}

}  // namespace

Cluster VirtualCluster::cluster() const {
  Cluster found;
  for (int h = 0; h < network.hosts; ++h) {
    Machine& host = found.hosts.emplace_back(machine);
    host.identity = fmt::format("{}/{}", name, h);
    host.host_name = fmt::format("{}-{}", machine.host_name, h);
  }
  const int cores = std::max(machine.usable_cores, network.ranks_per_host);
  for (int r = 0; r < network.ranks(); ++r) {
    const int place = network.place_of(r);
    const RankBinding& binding = bindings[static_cast<std::size_t>(place)];
    const auto nic = std::ranges::find(machine.nics, nics[static_cast<std::size_t>(binding.nic)], &Nic::name);
    RankSpot& spot = found.ranks.emplace_back(RankSpot{network.host_of(r), binding.numa_node, cores});
    const auto node = std::ranges::find(machine.numa_nodes, spot.numa_node, &NumaNode::id);
    if (node != machine.numa_nodes.end()) spot.package = node->package;
    if (!machine.gpus.empty()) spot.gpu = place;
    if (nic != machine.nics.end()) spot.nic = static_cast<int>(nic - machine.nics.begin());
  }
  return found;
}

VirtualCluster virtual_cluster_from(const std::string& text, const NetworkShape& shape) {
  const Asked asked = asked_for(text);
  require_ranks(asked, text);
  VirtualCluster made{.name = text, .machine = described_machine(asked.machine)};
  const std::vector<int> nics = nics_for_ranks(made.machine);
  HostModel host = has_name(asked.machine) ? host_model(asked.machine) : rates_of(made.machine, nics, made.assumed);
  host.ranks = asked.ranks_on.empty() ? usual_ranks(made.machine) : std::ranges::max(asked.ranks_on);
  host.nics = std::max(static_cast<int>(nics.size()), 1);
  made.bindings = bind_ranks(made.machine, nics, host.ranks);
  for (const int n : nics) made.nics.push_back(made.machine.nics[static_cast<std::size_t>(n)].name);
  if (nics.empty()) made.nics.emplace_back("a NIC that the machine does not list");
  made.network = joined(host, asked.hosts, shape);
  made.network.name = text;
  const bool equal = std::ranges::count(asked.ranks_on, host.ranks) == std::ssize(asked.ranks_on);
  if (!equal) made.network.ranks_on = asked.ranks_on;
  std::vector<int> nearest;
  for (const RankBinding& binding : made.bindings) nearest.push_back(binding.nic);
  for (int place = 0; place < host.ranks; ++place) {
    if (made.network.nic_of_place(place) == nearest[static_cast<std::size_t>(place)]) continue;
    made.network.nic_by_place = std::move(nearest);
    break;
  }
  return made;
}

}  // namespace sinew
