#include "ways.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/algorithm.hpp>
#include <sinew/core/error.hpp>

namespace sinew::tools {
namespace {

struct Candidate {
  std::string algorithm;
  std::string way;
  std::optional<Recipe> recipe;
  std::string rejected;
};

std::vector<const Algorithm*> algorithms_of(Collective collective) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective == collective) found.push_back(&a);
  }
  return found;
}

/// Inside hosts all at once, as suits links that do not limit each other; across them every algorithm.
constexpr std::string_view kInside = "direct";

std::vector<Candidate> compositions(const CollectiveDesc& desc, const Network& network) {
  std::vector<Candidate> found;
  std::string reason;
  for (const Algorithm* across : algorithms_of(desc.collective)) {
    const Composition how{levels_of(network), kInside, across->name};
    if (const Availability can = how.supports(desc, network.ranks()); !can.ok) {
      reason = can.reason;
      continue;
    }
    const std::string way = fmt::format("{} inside hosts, {} across", kInside, across->name);
    found.push_back({std::string(kHierarchical), way, Recipe(how), ""});
  }
  if (found.empty()) found.push_back({std::string(kHierarchical), "", std::nullopt, reason});
  return found;
}

std::vector<Candidate> candidates(const CollectiveDesc& desc, const Network& network, const std::string& algorithm) {
  std::vector<Candidate> found;
  std::vector<std::string_view> known{kHierarchical};
  for (const Algorithm* a : algorithms_of(desc.collective)) {
    known.push_back(a->name);
    if (!algorithm.empty() && a->name != algorithm) continue;
    const Availability can = a->supports(desc, network.ranks());
    found.push_back({std::string(a->name), "", can.ok ? std::optional<Recipe>(*a) : std::nullopt, can.reason});
  }
  if (algorithm.empty() || algorithm == kHierarchical) {
    for (Candidate& c : compositions(desc, network)) found.push_back(std::move(c));
  }
  if (found.empty()) {
    throw Error(Code::InvalidArgument, fmt::format("'{}': expected an algorithm of {}, one of {}", algorithm,
                                                   name_of(desc.collective), fmt::join(known, ", ")));
  }
  return found;
}

}  // namespace

std::vector<SimulatedWay> simulate_ways(const CollectiveDesc& desc, const Network& network,
                                        const std::string& algorithm,
                                        const std::function<void(const std::string&)>& begins) {
  std::vector<SimulatedWay> ways;
  for (const Candidate& c : candidates(desc, network, algorithm)) {
    SimulatedWay& way = ways.emplace_back();
    way.algorithm = c.algorithm;
    way.way = c.way;
    way.rejected = c.rejected;
    if (!c.recipe) continue;
    begins(c.way.empty() ? c.algorithm : fmt::format("{}, {}", c.algorithm, c.way));
    try {
      way.forecast = simulate(*c.recipe, desc, network);
    } catch (const Error& e) {
      way.rejected = e.what();
    }
  }
  std::ranges::stable_sort(ways, std::less<>(),
                           [](const SimulatedWay& w) { return std::tuple(!w.rejected.empty(), w.forecast.seconds); });
  return ways;
}

}  // namespace sinew::tools
