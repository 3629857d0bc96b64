#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include <sinew/collectives/hierarchy/levels.hpp>

namespace sinew {

using Ranks = std::vector<int>;

inline int at(const Ranks& ranks, int place) { return ranks[static_cast<std::size_t>(place)]; }
int count(const auto& list) { return static_cast<int>(list.size()); }

/// The index of a rank in a list. It is the length of the list if the rank is not in it.
inline int place_in(const Ranks& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

/// The parts into which a level divides some ranks, as one of these ranks sees them. A stripe is a share of the data.
/// In each part, the rank whose number is the stripe's number modulo the part's size carries it.
struct LevelParts {
  std::vector<Ranks> all;
  int mine = 0;     ///< the index of this rank's part
  int place = 0;    ///< this rank's number in its part
  int stripes = 0;  ///< the number of ranks of the largest part

  const Ranks& own() const { return all[static_cast<std::size_t>(mine)]; }
  /// The ranks that carry a stripe, one of each part.
  Ranks equals(int stripe) const {
    Ranks some;
    for (const Ranks& part : all) some.push_back(at(part, stripe % count(part)));
    return some;
  }
  bool carries(int stripe) const { return stripe % count(own()) == place; }
  /// The largest number of stripes that a rank of this part carries.
  int waves() const { return (stripes + count(own()) - 1) / count(own()); }
};

/// Returns the parts of these ranks at the first level, from `level` on, that divides them. Sets `level` to it. Returns
/// nullopt if no level divides them.
std::optional<std::vector<Ranks>> parted(const Levels& levels, const Ranks& ranks, std::size_t& level);
/// Returns the same parts as `rank` sees them.
std::optional<LevelParts> parts_of(const Levels& levels, const Ranks& ranks, std::size_t& level, int rank);
/// Returns the parts at the coarsest level that divides these ranks. Precondition: there is such a level.
LevelParts coarsest_parts(const Levels& levels, const Ranks& ranks, int rank);

}  // namespace sinew
