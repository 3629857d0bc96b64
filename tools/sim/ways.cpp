#include "ways.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>

namespace sinew::tools {
namespace {

std::vector<const Algorithm*> algorithms_of(Collective collective) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective == collective) found.push_back(&a);
  }
  return found;
}

/// Inside hosts all at once, as suits links that do not limit each other; across them every algorithm.
constexpr std::string_view kInside = "direct";

std::vector<SimulatedWay> compositions(const CollectiveDesc& desc, const Network& network) {
  std::vector<SimulatedWay> found;
  std::string reason;
  for (const Algorithm* across : algorithms_of(desc.collective)) {
    const HierarchicalAlgorithm how{levels_of(network), kInside, across->name};
    if (const Availability can = how.supports(desc, network.ranks()); !can.ok) {
      reason = can.reason;
      continue;
    }
    const std::string way = fmt::format("{} inside hosts, {} across", kInside, across->name);
    found.push_back({.algorithm = std::string(kHierarchical),
                     .way = way,
                     .across = std::string(across->name),
                     .recipe = Recipe(how)});
  }
  if (found.empty()) found.push_back({.algorithm = std::string(kHierarchical), .rejected = reason});
  return found;
}

std::vector<SimulatedWay> candidates(const CollectiveDesc& desc, const Network& network, const std::string& algorithm) {
  std::vector<SimulatedWay> found;
  std::vector<std::string_view> known{kHierarchical};
  for (const Algorithm* a : algorithms_of(desc.collective)) {
    known.push_back(a->name);
    if (!algorithm.empty() && a->name != algorithm) continue;
    const Availability can = a->supports(desc, network.ranks());
    SimulatedWay& way = found.emplace_back(SimulatedWay{.algorithm = std::string(a->name), .rejected = can.reason});
    if (can.ok) way.recipe = Recipe(*a);
  }
  if (algorithm.empty() || algorithm == kHierarchical) {
    for (SimulatedWay& c : compositions(desc, network)) found.push_back(std::move(c));
  }
  if (found.empty()) {
    throw Error(Code::InvalidArgument, fmt::format("'{}': expected an algorithm of {}, one of {}", algorithm,
                                                   name_of(desc.collective), fmt::join(known, ", ")));
  }
  return found;
}

/// With fewer ranks a simulation is too short for threads to pay.
constexpr int kManyRanks = 4096;  // not a page
/// Each thread runs one simulation at a time, which takes up to half a GiB.
constexpr int kMostThreads = 4;

}  // namespace

std::string full_name(const SimulatedWay& way) {
  return way.way.empty() ? way.algorithm : fmt::format("{}, {}", way.algorithm, way.way);
}

std::string short_name(const SimulatedWay& way) {
  return way.across.empty() ? way.algorithm : fmt::format("{} {}", way.algorithm, way.across);
}

std::vector<SimulatedWay> simulate_ways(const CollectiveDesc& desc, const Network& network,
                                        const std::string& algorithm, const ShowBegin& begins,
                                        const SimulationOptions& options) {
  std::vector<SimulatedWay> ways = candidates(desc, network, algorithm);
  std::atomic<std::size_t> next = 0;
  std::mutex telling;
  const auto simulate_some = [&] {
    for (std::size_t i = next++; i < ways.size(); i = next++) {
      SimulatedWay& way = ways[i];
      if (!way.recipe) continue;
      {
        const std::scoped_lock lock(telling);
        begins(full_name(way), static_cast<double>(i) / static_cast<double>(ways.size()));
      }
      try {
        way.forecast = simulate(*way.recipe, desc, network, options);
      } catch (const Error& e) {
        way.rejected = e.what();
      }
    }
  };
  const int threads = network.ranks() < kManyRanks ? 1 : std::min(kMostThreads, usable_cores());
  std::vector<std::future<void>> others;
  for (int t = 1; t < threads; ++t) others.push_back(std::async(std::launch::async, simulate_some));
  simulate_some();
  for (std::future<void>& other : others) other.get();
  std::ranges::stable_sort(ways, std::less<>(),
                           [](const SimulatedWay& w) { return std::tuple(!w.rejected.empty(), w.forecast.seconds); });
  return ways;
}

}  // namespace sinew::tools
