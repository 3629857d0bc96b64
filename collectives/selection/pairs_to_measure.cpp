#include <algorithm>
#include <cstddef>
#include <utility>

#include <sinew/collectives/selection/pairs_to_measure.hpp>

namespace sinew {
namespace {

constexpr std::size_t kMostKindsOfPairs = 4;

bool is_alike(const Reach& a, const Reach& b) {
  const auto same = [](const Knot& p, const Knot& q) { return p.bytes == q.bytes && p.bytes_per_s == q.bytes_per_s; };
  return a.ok == b.ok && a.resource == b.resource && a.cost.overhead_s == b.cost.overhead_s &&
         a.cost.latency_s == b.cost.latency_s && std::ranges::equal(a.cost.knots, b.cost.knots, same);
}

bool is_alike(const std::vector<Facts::Link>& a, const std::vector<Facts::Link>& b) {
  return std::ranges::equal(a, b, [](const Facts::Link& p, const Facts::Link& q) {
    return p.transport == q.transport && is_alike(p.reach, q.reach);
  });
}

/// The lowest two ranks of one host that are of different processes, or of any if there are none.
std::optional<std::pair<int, int>> two_of_a_host(const Facts& facts) {
  std::optional<std::pair<int, int>> of_a_process;
  const int size = static_cast<int>(facts.ranks.size());
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b) {
      const LinkClass where = facts.class_of(a, b);
      if (where.host_a != where.host_b) continue;
      if (!where.same_process) return std::pair(a, b);
      if (!of_a_process) of_a_process = {a, b};
    }
  }
  return of_a_process;
}

}  // namespace

std::optional<PairToMeasure> pair_of_a_host(const Facts& facts) {
  const auto two = two_of_a_host(facts);
  if (!two) return std::nullopt;
  return PairToMeasure{two->first, two->second, {}};
}

std::vector<PairToMeasure> pairs_between_hosts(const Facts& facts) {
  std::vector<int> first_of_host(facts.cores_of_host.size(), -1);
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    int& first = first_of_host[static_cast<std::size_t>(facts.ranks[r].host)];
    if (first < 0) first = static_cast<int>(r);
  }
  std::vector<PairToMeasure> kinds;
  for (const auto& [where, row] : facts.links) {
    if (where.host_a == where.host_b) continue;
    const auto kind = std::ranges::find_if(
        kinds, [&](const PairToMeasure& p) { return is_alike(facts.links.at(p.holds_for.front()), row); });
    if (kind != kinds.end()) {
      kind->holds_for.push_back(where);
    } else if (kinds.size() < kMostKindsOfPairs) {
      kinds.push_back({first_of_host[static_cast<std::size_t>(where.host_a)],
                       first_of_host[static_cast<std::size_t>(where.host_b)],
                       {where}});
    }
  }
  return kinds;
}

}  // namespace sinew
