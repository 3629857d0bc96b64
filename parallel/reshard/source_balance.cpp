#include <algorithm>
#include <numeric>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/reshard/source_balance.hpp>

namespace sinew::parallel {
namespace {

using Shares = std::vector<std::int64_t>;

/// Divides a demand so that the loads of the ranks that get a share become equal, and no other rank has less.
/// Returns the most by which a share changes.
std::int64_t level(const Demand& demand, Shares& shares, std::vector<std::int64_t>& loads) {
  const std::size_t n = demand.eligible.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < n; ++i) loads[at(demand.eligible[i])] -= shares[i];
  const auto load = [&](std::size_t i) { return loads[at(demand.eligible[i])]; };
  std::ranges::stable_sort(order, {}, load);
  // The ranks with the least loads share the demand: as many of them as stay below the common level.
  std::int64_t sum = demand.bytes;
  std::size_t sharing = 0;
  while (sharing < n && (sharing == 0 || load(order[sharing]) * static_cast<std::int64_t>(sharing) < sum))
    sum += load(order[sharing++]);
  const auto ranks = static_cast<std::int64_t>(sharing);
  std::int64_t changed = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = order[k];
    const auto place = static_cast<std::int64_t>(k);
    const std::int64_t share = k < sharing ? sum / ranks + (place < sum % ranks ? 1 : 0) - load(i) : 0;
    changed = std::max(changed, share > shares[i] ? share - shares[i] : shares[i] - share);
    shares[i] = share;
  }
  for (std::size_t i = 0; i < n; ++i) loads[at(demand.eligible[i])] += shares[i];
  return changed;
}

/// Rounds shares to whole ranges. Bytes that a rank lacks after earlier demands are added to its share of this one. A
/// rank without a share gets no range.
/// lacks: by rank, the bytes that earlier demands gave the rank too little.
Shares in_ranges(const Demand& demand, const Shares& shares, std::vector<std::int64_t>& lacks) {
  const std::size_t n = shares.size();
  Shares rounded(n, 0);
  std::int64_t left = demand.bytes;
  const auto lack = [&](std::size_t i) -> std::int64_t& { return lacks[at(demand.eligible[i])]; };
  for (std::size_t i = 0; i < n; ++i) lack(i) += shares[i];
  const auto give = [&](std::size_t i, std::int64_t bytes) {
    rounded[i] += bytes;
    lack(i) -= bytes;
    left -= bytes;
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (shares[i] == 0) continue;
    const std::int64_t ranges = std::min(std::max<std::int64_t>(lack(i), 0), left) / kLeastRangeBytes;
    give(i, ranges * kLeastRangeBytes);
  }
  while (left > 0) {
    std::size_t most = n;
    for (std::size_t i = 0; i < n; ++i) {
      if (shares[i] > 0 && (most == n || lack(i) > lack(most))) most = i;
    }
    give(most, std::min(left, kLeastRangeBytes));
  }
  return rounded;
}

}  // namespace

std::vector<std::vector<std::int64_t>> balanced_shares(const std::vector<Demand>& demands,
                                                       std::vector<std::int64_t>& loads) {
  constexpr int kMostSweeps = 200;
  const std::vector<std::int64_t> before = loads;
  std::vector<Shares> shares;
  for (const Demand& demand : demands) level(demand, shares.emplace_back(demand.eligible.size(), 0), loads);
  // Each sweep lowers the sum of the squares of all loads, whose minimum is the fairest division.
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    std::int64_t changed = 0;
    for (std::size_t d = 0; d < demands.size(); ++d) changed = std::max(changed, level(demands[d], shares[d], loads));
    if (changed < kLeastRangeBytes / 4) break;
  }
  std::vector<std::int64_t> lacks(loads.size(), 0);
  loads = before;
  for (std::size_t d = 0; d < demands.size(); ++d) {
    shares[d] = in_ranges(demands[d], shares[d], lacks);
    for (std::size_t i = 0; i < shares[d].size(); ++i) loads[at(demands[d].eligible[i])] += shares[d][i];
  }
  return shares;
}

}  // namespace sinew::parallel
