#pragma once

#include <array>
#include <cstdint>
#include <map>
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
  const Way& way(int kind, int to);
  /// Counts bytes on their way.
  void carry(const Way& way, double bytes);
  /// Of what was carried, times `factor`, in so long. The highest utilisation comes first.
  std::vector<Forecast::Load> loads(double factor, Seconds seconds) const;

 private:
  int id_of(const NetworkLink& link) const noexcept {
    return first_id_[static_cast<std::size_t>(link.tier)] + link.index;
  }
  Way find(int from, int to);
  double crossing(int from, int to);

  const Network& network_;
  const Symmetry& symmetry_;
  std::array<int, kTiers> first_id_{};
  Traffic traffic_;
  std::unordered_map<std::uint64_t, Way> ways_;
  std::unordered_map<std::uint64_t, double> crossing_;  // of a fat tree, by both hosts
  std::map<std::vector<Traffic::Use>, int> path_of_;
  std::vector<std::vector<Traffic::Use>> uses_;  // by path
  std::vector<double> carried_;                  // by link
};

}  // namespace sinew
