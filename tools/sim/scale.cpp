#include "scale.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/error.hpp>

namespace sinew::tools {
namespace {

/// Some seconds for each way at the most ranks, where a simulation alone may take minutes.
constexpr SimulationOptions kOfAPoint{
    .exact_steps = 500'000, .most_steps = 4'000'000, .most_composed = 600, .most_executed = 500'000};

/// "8..100000"
std::pair<int, int> parse_range(const std::string& range) {
  const auto number = [](std::string_view text) { return parse_number<int>(text).value_or(0); };
  const std::size_t dots = range.find("..");
  if (dots != std::string::npos) {
    const int least = number(std::string_view(range).substr(0, dots)), most = number(range.substr(dots + 2));
    if (least > 0 && most >= least) return {least, most};
  }
  throw Error(Code::InvalidArgument,
              fmt::format("--scale {}: expected the fewest and the most ranks, 1 to {}, such as 8..100000",
                          shown_value(range), std::numeric_limits<int>::max()));
}

std::string ranks_text(int first, int last) {
  return first == last ? fmt::format("{} ranks", first) : fmt::format("{} to {} ranks", first, last);
}

/// Runs of points for which `text` gives the same, or, if it tells only whether there is something, what the first
/// says.
template <class Text>
std::vector<std::pair<std::string, std::string>> runs(const std::vector<ScalePoint>& points, bool any, Text text) {
  std::vector<std::pair<std::string, std::string>> found;
  for (std::size_t i = 0; i < points.size();) {
    const std::string here = text(points[i]);
    std::size_t next = i + 1;
    while (next < points.size()) {
      const std::string there = text(points[next]);
      if (any ? there.empty() != here.empty() : there != here) break;
      ++next;
    }
    if (!here.empty()) found.emplace_back(ranks_text(points[i].ranks, points[next - 1].ranks), here);
    i = next;
  }
  return found;
}

}  // namespace

const SimulatedWay* ScalePoint::simulated(std::string_view name) const {
  const auto found =
      std::ranges::find_if(ways, [&](const SimulatedWay& w) { return w.rejected.empty() && full_name(w) == name; });
  return found == ways.end() ? nullptr : &*found;
}

const SimulatedWay* ScalePoint::fastest() const {
  return ways.empty() || !ways.front().rejected.empty() ? nullptr : &ways.front();
}

std::vector<std::string> Scale::names() const {
  std::set<std::string> all;
  for (const ScalePoint& p : points) {
    for (const SimulatedWay& w : p.ways) {
      if (w.rejected.empty()) all.insert(full_name(w));
    }
  }
  return {all.begin(), all.end()};
}

std::vector<std::string> Scale::gaps() const {
  std::set<std::string> rejected;
  for (const ScalePoint& p : points) {
    for (const SimulatedWay& w : p.ways) {
      if (!w.rejected.empty()) rejected.insert(full_name(w));
    }
  }
  std::vector<std::string> lines;
  for (const auto& [where, why] : runs(points, true, [](const ScalePoint& p) { return p.rejected; }))
    lines.push_back(fmt::format("{}: {}", where, why));
  for (const std::string& name : rejected) {
    const auto reason = [&](const ScalePoint& p) {
      for (const SimulatedWay& w : p.ways) {
        if (full_name(w) == name) return w.rejected;
      }
      return std::string();
    };
    for (const auto& [where, why] : runs(points, true, reason))
      lines.push_back(fmt::format("{}, {}: {}", name, where, why));
  }
  return lines;
}

std::vector<std::string> Scale::winners() const {
  const auto name = [](const ScalePoint& p) { return p.fastest() == nullptr ? "" : full_name(*p.fastest()); };
  std::vector<std::string> lines;
  for (const auto& [where, who] : runs(points, false, name)) lines.push_back(fmt::format("{}: {}", where, who));
  return lines;
}

std::vector<int> hosts_of_scale(const std::string& range, const HostModel& host) {
  const auto [least, most] = parse_range(range);
  const int first = (least - 1) / host.ranks + 1, last = most / host.ranks;
  if (first > last) {
    throw Error(Code::InvalidArgument, fmt::format("--scale {}: expected a range that holds a multiple of {}, the "
                                                   "ranks of a host of {}",
                                                   range, host.ranks, host.name));
  }
  std::vector<int> hosts;
  for (std::int64_t n = first; n < last; n *= 2) hosts.push_back(static_cast<int>(n));
  hosts.push_back(last);
  return hosts;
}

Scale simulate_scale(const HostModel& host, const std::vector<int>& hosts,
                     const std::function<Network(int hosts)>& network,
                     const std::function<SimulatedCall(int ranks)>& call, const std::string& algorithm,
                     const ShowBegin& begins) {
  Scale scale{.host = std::string(host.name), .network = network(hosts.front())};
  scale.call = call(scale.network.ranks());
  for (const int n : hosts) {
    const Network here = network(n);
    ScalePoint& point = scale.points.emplace_back(ScalePoint{.hosts = n, .ranks = here.ranks()});
    CollectiveDesc desc;
    try {
      desc = call(here.ranks()).desc;
    } catch (const Error& e) {  // too few bytes for so many ranks
      point.rejected = e.what();
      continue;
    }
    const auto begins_here = [&](const std::string& name, double share) {
      const double points = static_cast<double>(scale.points.size() - 1) + share;
      begins(fmt::format("{} ranks: {}", here.ranks(), name), points / static_cast<double>(hosts.size()));
    };
    point.ways = simulate_ways(desc, here, algorithm, begins_here, kOfAPoint);
  }
  return scale;
}

}  // namespace sinew::tools
