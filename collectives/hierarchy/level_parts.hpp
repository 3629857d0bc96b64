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

/// The place of a rank in a list; behind its end: it is not in it.
inline int place_in(const Ranks& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

/// How a level parts some ranks, as one of them sees it. A stripe is a share of the data; of each part the rank at the
/// stripe's number, modulo the part's ranks, carries it.
struct LevelParts {
  std::vector<Ranks> all;
  int mine = 0;     ///< this rank's part
  int place = 0;    ///< this rank's, in it
  int stripes = 0;  ///< ranks of the largest part

  const Ranks& own() const { return all[static_cast<std::size_t>(mine)]; }
  /// Who carries a stripe, of each part.
  Ranks equals(int stripe) const {
    Ranks some;
    for (const Ranks& part : all) some.push_back(at(part, stripe % count(part)));
    return some;
  }
  bool carries(int stripe) const { return stripe % count(own()) == place; }
  /// How often every rank of this part must have a stripe, for all to be dealt.
  int waves() const { return (stripes + count(own()) - 1) / count(own()); }
};

/// The parts of these ranks at the first level from `level` on that parts them, to which `level` is set.
/// nullopt: these ranks are not parted any more.
std::optional<std::vector<Ranks>> parted(const Levels& levels, const Ranks& ranks, std::size_t& level);
/// The same, as `rank` sees it.
std::optional<LevelParts> parts_of(const Levels& levels, const Ranks& ranks, std::size_t& level, int rank);
/// At the coarsest level that parts these ranks; there must be one.
LevelParts coarsest_parts(const Levels& levels, const Ranks& ranks, int rank);

}  // namespace sinew
