#pragma once

#include <optional>
#include <vector>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// Two ranks, a < b, that measure what lies between them, and the classes of links that it holds for.
struct PairToMeasure {
  int a = 0;
  int b = 0;
  std::vector<LinkClass> holds_for;  ///< not empty between hosts; within hosts it holds for all
};

/// The lowest two ranks of one host that are of different processes, or of any if there are none. nullopt: no host has
/// two ranks.
SINEW_API std::optional<PairToMeasure> pair_of_a_host(const Facts& facts);

/// For each kind of links between hosts its first two ranks. Links of which every transport assumes the same are of one
/// kind. So many at most that start-up stays short; of what is left costs stay assumed.
SINEW_API std::vector<PairToMeasure> pairs_between_hosts(const Facts& facts);

}  // namespace sinew
