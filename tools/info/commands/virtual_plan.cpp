#include "virtual_plan.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/base/table.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "stages.hpp"

namespace sinew::tools {
namespace {

/// Of long calls on many ranks a second's worth; the forecast says what it left out.
constexpr std::uint64_t kMostExecuted = 500'000;

std::vector<std::string> names_of(const std::vector<int>& nics, const VirtualCluster& on) {
  std::vector<std::string> names;
  for (const int n : nics) names.push_back(on.nics[static_cast<std::size_t>(n)]);
  return names;
}

/// One line where all hosts are alike.
std::string nics_text(const VirtualPlan& plan, const VirtualCluster& on) {
  const std::size_t hosts = plan.nics_used.size();
  if (hosts == 1) return fmt::format("  one host: nothing leaves it; {}x2 has two\n", on.name);
  const auto line = [&](const std::string& who, const std::vector<int>& nics) {
    return fmt::format("  {} {} of {} NICs: {}\n", who, nics.size(), on.nics.size(),
                       fmt::join(names_of(nics, on), ", "));
  };
  const std::vector<int>& first = plan.nics_used.front();
  if (std::ranges::count(plan.nics_used, first) == std::ssize(plan.nics_used))
    return line("across hosts each sends by", first);
  std::string text;
  for (std::size_t h = 0; h < hosts; ++h) text += line(fmt::format("host {} sends by", h), plan.nics_used[h]);
  return text;
}

std::string bindings_text(const VirtualCluster& on) {
  std::string text;
  for (std::size_t place = 0; place < on.bindings.size(); ++place) {
    const RankBinding& binding = on.bindings[place];
    text += fmt::format("    place {}: {} with {}\n", place, binding.part.empty() ? "anywhere" : binding.part,
                        on.nics[static_cast<std::size_t>(binding.nic)]);
  }
  return text;
}

/// Where the choice was made by another figure than what comes out.
std::string beside_prediction(const Forecast& f, Seconds predicted) {
  constexpr double kFar = 1.25;
  const double ratio = f.seconds / predicted;
  if (predicted <= 0 || (ratio < kFar && ratio > 1 / kFar)) return "";
  return fmt::format(
      "    {:.2f} times what is predicted above, by which ways are compared: `sinew-sim` compares them "
      "by simulation\n",
      ratio);
}

std::string time_text(const Forecast& f, const Network& n) {
  std::string text = fmt::format("  simulated: {:.2f} us", f.seconds * 1e6);
  if (f.segments > 1) text += fmt::format(" in {} segments, {} at a time", f.segments, f.depth);
  if (!f.loads.empty() && f.loads.front().utilisation > 0) {
    const Forecast::Load& most = f.loads.front();
    text += fmt::format("; busiest: {}, {:.1f} % of that time", n.describe(most.busiest), 100 * most.utilisation);
  }
  return text + fmt::format("\n    {}{}\n", f.exact ? "" : "approximation: ", f.account);
}

}  // namespace

VirtualPlan plan_on(const std::shared_ptr<const VirtualWorld>& virtual_world,
                    const std::function<CollectiveDesc(int ranks)>& describe) {
  VirtualPlan found;
  WorldOptions options;
  if (virtual_world->plans_devices) options.config.transports.clear();  // they have chosen the offloads
  run_virtual_ranks(virtual_world, options, [&](World& world) {
    if (world.rank() == 0) found.plan = world.communicator().plan(describe(world.size()));
  });
  const Network& network = virtual_world->on.network;
  found.stages = stages_of(found.plan, network);
  found.nics_used = nics_used(found.plan, network);
  found.loads = simulated_loads(found.plan, network).value_or(std::vector<TierLoad>{});
  if (!found.loads.empty()) found.simulated = simulate(found.plan, network, {.most_executed = kMostExecuted});
  return found;
}

std::string to_text(const VirtualPlan& plan, const VirtualCluster& on) {
  const Network& n = on.network;
  std::string text = plan.plan.explain();
  text += fmt::format("  virtual cluster: {}: {} ranks on {} host{}, {}\n", on.name, n.ranks(), n.hosts,
                      n.hosts == 1 ? "" : "s", form_text(n));
  for (const std::string& what : on.assumed) text += fmt::format("  assumed: {}\n", what);
  text += "  ranks of a host:\n" + bindings_text(on);
  if (plan.stages.empty()) return text;
  text += "  stages:\n";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) text += fmt::format("    {}. {}\n", s + 1, plan.stages[s]);
  text += nics_text(plan, on);
  if (plan.simulated)
    text += time_text(*plan.simulated, n) + beside_prediction(*plan.simulated, plan.plan.chosen().predicted);
  if (plan.loads.empty()) return text;
  Table loads({{}, {.align = Align::Right}, {.align = Align::Right}, {}}, "    ");
  for (const TierLoad& l : plan.loads) {
    loads.add({std::string(name_of(l.tier)), fmt::format("{} of {} used", l.used, l.links),
               fmt::format("{} bytes,", l.bytes),
               fmt::format("most by {}: {}", n.describe(l.busiest), l.busiest_bytes)});
  }
  return text + "  links, in one call:\n" + loads.text();
}

std::string to_json(const VirtualPlan& plan, const VirtualCluster& on) {
  auto json = nlohmann::ordered_json::parse(plan.plan.to_json());
  json["imagined"] = on.name;
  describe_form(on.network, json);
  json["ranks"] = on.network.ranks();
  json["hosts"] = on.network.hosts;
  json["assumed"] = on.assumed;
  json["stages"] = plan.stages;
  json["nics"] = on.nics;
  for (const RankBinding& binding : on.bindings)
    json["seats"].push_back({{"part", binding.part}, {"nic", on.nics[static_cast<std::size_t>(binding.nic)]}});
  for (const std::vector<int>& nics : plan.nics_used) json["nics_used"].push_back(names_of(nics, on));
  if (plan.simulated) {
    json["simulated_us"] = plan.simulated->seconds * 1e6;
    json["segments"] = plan.simulated->segments;
    json["depth"] = plan.simulated->depth;
    json["exact"] = plan.simulated->exact;
  }
  json["links"] = nlohmann::json::array();
  for (const TierLoad& l : plan.loads) {
    json["links"].push_back({{"links", name_of(l.tier)},
                             {"count", l.links},
                             {"used", l.used},
                             {"bytes", l.bytes},
                             {"busiest", on.network.describe(l.busiest)},
                             {"busiest_bytes", l.busiest_bytes}});
  }
  return json_text(json);
}

}  // namespace sinew::tools
