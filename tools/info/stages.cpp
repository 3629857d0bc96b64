#include "stages.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <sinew/collectives/selection/recipe.hpp>

namespace sinew::tools {
namespace {

/// Levels are NUMA nodes, then hosts; those that tell nothing are left out.
std::string_view name_of_level(std::size_t level, std::size_t levels) {
  return level + 1 == levels ? "host" : "NUMA node";
}

/// What runs inside the parts of all levels, the nearest first.
std::vector<std::string> inside(Collective collective, std::string_view algorithm, std::size_t levels) {
  std::vector<std::string> stages;
  for (std::size_t l = 0; l < levels; ++l) {
    const std::string whom = l == 0 ? "the ranks" : fmt::format("equals of the {}s", name_of_level(l - 1, levels));
    stages.push_back(
        fmt::format("{} by {} among {} of each {}", name_of(collective), algorithm, whom, name_of_level(l, levels)));
  }
  return stages;
}

std::vector<std::string> stages_of(const HierarchicalAlgorithm& how, Collective collective, int hosts) {
  const bool coarsest_only = moves_runs(collective);
  const std::size_t levels = coarsest_only ? 1 : how.levels.without_idle().part_of.size();
  std::vector<std::string> first, last;
  if (collective == Collective::AllGather || collective == Collective::Broadcast) {
    last = inside(collective, how.inside, levels);
  } else {
    first = inside(first_inside(collective), how.inside, levels);
  }
  if (collective == Collective::AllReduce) last = inside(Collective::AllGather, how.inside, levels);
  std::ranges::reverse(last);
  std::vector<std::string> all = std::move(first);
  all.push_back(fmt::format("{} by {} among equals of the {} hosts", name_of(collective), how.across, hosts));
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

}  // namespace

std::vector<std::string> stages_of(const Plan& plan, const Network& network) {
  const Recipe* recipe = plan.recipe();
  if (recipe == nullptr) return {};
  const Collective collective = plan.call().collective;
  if (const HierarchicalAlgorithm* how = recipe->hierarchical()) return stages_of(*how, collective, network.hosts);
  return {fmt::format("{} by {} among all {} ranks", name_of(collective), recipe->name(), network.ranks())};
}

std::vector<std::vector<int>> nics_used(const Plan& plan, const Network& network) {
  std::vector<std::set<int>> by_host(static_cast<std::size_t>(network.hosts));
  const Recipe* recipe = plan.recipe();
  for (int rank = 0; recipe != nullptr && rank < network.ranks(); ++rank) {
    const int host = network.host_of(rank);
    const Program program = recipe->build(plan.call(), rank, network.ranks(), false);
    const bool leaves = std::ranges::any_of(
        program.steps, [&](const Step& s) { return s.op == Op::Send && network.host_of(s.peer) != host; });
    if (leaves) by_host[static_cast<std::size_t>(host)].insert(network.nic_of_place(network.place_of(rank)));
  }
  std::vector<std::vector<int>> used;
  for (const std::set<int>& nics : by_host) used.emplace_back(nics.begin(), nics.end());
  return used;
}

}  // namespace sinew::tools
