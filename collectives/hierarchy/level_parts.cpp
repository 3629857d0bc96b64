#include <cassert>
#include <tuple>
#include <utility>

#include <sinew/collectives/hierarchy/level_parts.hpp>

namespace sinew {

std::optional<std::vector<Ranks>> parted(const Levels& levels, const Ranks& ranks, std::size_t& level) {
  for (; level < levels.part_of.size(); ++level) {
    std::vector<Ranks> parts = levels.parts(level, ranks);
    if (parts.size() == 1) return std::nullopt;
    if (parts.size() < ranks.size()) return parts;
  }
  return std::nullopt;
}

std::optional<LevelParts> parts_of(const Levels& levels, const Ranks& ranks, std::size_t& level, int rank) {
  auto all = parted(levels, ranks, level);
  if (!all) return std::nullopt;
  LevelParts parts{std::move(*all)};
  for (int p = 0; p < count(parts.all); ++p) {
    const Ranks& part = parts.all[static_cast<std::size_t>(p)];
    parts.stripes = std::max(parts.stripes, count(part));
    if (const int place = place_in(part, rank); place < count(part))
      std::tie(parts.mine, parts.place) = std::pair(p, place);
  }
  return parts;
}

LevelParts coarsest_parts(const Levels& levels, const Ranks& ranks, int rank) {
  for (std::size_t level = levels.part_of.size(); level-- > 0;) {
    std::size_t found = level;
    if (auto parts = parts_of(levels, ranks, found, rank); parts && found == level) return *std::move(parts);
  }
  assert(!"supports() says no");
  return {};
}

}  // namespace sinew
