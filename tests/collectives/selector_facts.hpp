#pragma once

#include <memory>
#include <vector>

#include <sinew/collectives/selection/selector.hpp>

#include "fakes/fixed_offload.hpp"

namespace sinew::test {

inline constexpr Seconds kLatency = 1e-6;
inline constexpr double kBytesPerSecond = 1e9;

/// So many ranks on one host, one transport that takes 1 us and moves 1 GB/s.
inline Facts one_host(int ranks, int cores) {
  Facts facts;
  for (int r = 0; r < ranks; ++r) facts.ranks.push_back({0, r});
  facts.cores_of_host = {cores};
  facts.transports = {"wire"};
  CostCurve curve;
  curve.latency_s = kLatency;
  curve.knots.push_back({4096.0, kBytesPerSecond});  // not a page
  facts.links[{0, 0, false}] = {{"wire", {true, {}, curve, "wire"}}};
  return facts;
}

inline std::vector<int> ranks_of(const Facts& facts) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) ranks.push_back(static_cast<int>(r));
  return ranks;
}

inline CollectiveDesc sum_of(std::uint64_t count) {
  return {.collective = Collective::AllReduce, .dtype = DType::F32, .count = count};
}

/// As many hosts, and ranks on each; messages inside hosts as in one_host, between them a tenth of the rate.
inline Facts hosts_of(int hosts, int ranks_each) {
  Facts facts;
  for (int r = 0; r < hosts * ranks_each; ++r) facts.ranks.push_back({r / ranks_each, r});
  facts.cores_of_host.assign(static_cast<std::size_t>(hosts), ranks_each);
  facts.transports = {"wire"};
  CostCurve near = one_host(2, 2).links.begin()->second.front().reach.cost;
  CostCurve far = near;
  far.latency_s = 10 * kLatency;
  far.knots.clear();
  far.knots.push_back({4096.0, kBytesPerSecond / 10});  // not a page
  for (int a = 0; a < hosts; ++a) {
    for (int b = a; b < hosts; ++b) facts.links[{a, b, false}] = {{"wire", {true, {}, a == b ? near : far, "wire"}}};
  }
  return facts;
}

/// The candidate that is chosen beside an offload with this prediction.
inline Candidate chosen(const Facts& facts, const CollectiveDesc& desc, Seconds offload_predicts) {
  std::vector<NamedOffload> offloads;
  offloads.push_back({"host", std::make_unique<FixedOffload>(offload_predicts)});
  return Selector(facts, ranks_of(facts), offloads).select(desc).plan.chosen();
}

}  // namespace sinew::test
