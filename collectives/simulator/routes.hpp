#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <sinew/collectives/simulator/forecast.hpp>
#include <sinew/collectives/simulator/symmetry.hpp>
#include <sinew/collectives/simulator/traffic.hpp>

namespace sinew {

/// The ways of simulated ranks' messages through a network, each standing for those of all ranks alike.
class Routes {
 public:
  struct Way {
    int path = -1;  ///< of traffic(); -1: nothing limits it
    Seconds latency = 0;
  };

  Routes(const Network& network, const Symmetry& symmetry);

  Traffic& traffic() noexcept { return traffic_; }
  /// From the first rank of a kind to one that is seen from there.
  Way way(int kind, int to);
  /// Counts bytes on a path.
  void carry(int path, double bytes) { carried_[static_cast<std::size_t>(path)] += bytes; }
  /// Of what was carried, times `factor`, in so long. The highest utilisation comes first.
  std::vector<Forecast::Load> loads(double factor, Seconds seconds) const;
  /// The same by tier and link: of links alike as many through each.
  std::array<std::vector<double>, kTiers> link_bytes(double factor) const;

 private:
  int id_of(const NetworkLink& link) const noexcept {
    return first_id_[static_cast<std::size_t>(link.tier)] + link.index;
  }
  Way find(int from, int to);
  double crossing(int from, int to);
  bool may_limit(Tier tier) const noexcept;
  int path_of(const std::vector<Traffic::Use>& all, const std::vector<Traffic::Use>& that_may_limit);
  std::vector<double> carried_by_links() const;

  const Network& network_;
  const Symmetry& symmetry_;
  std::array<int, kTiers> first_id_{};
  Traffic traffic_;
  std::unordered_map<std::uint64_t, Way> ways_;
  std::unordered_map<std::uint64_t, double> crossing_;   // of a fat tree, by both hosts
  std::unordered_multimap<std::uint64_t, int> path_of_;  // by a hash of its uses
  std::vector<std::vector<Traffic::Use>> uses_;          // by path
  std::vector<double> carried_;                          // by path
};

}  // namespace sinew
