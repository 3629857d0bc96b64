#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/export.hpp>

namespace sinew {

/// Characters of Group::name, at most: records have room for no more.
inline constexpr std::size_t kLongestGroupName = 47;

/// The ranks of a communicator, in its order. Equal on all of them but for `rank`.
/// Texts number ranks as the World does, and show the communicator's own number beside that where it is another one.
struct Group {
  int rank = 0;
  std::vector<int> world_ranks;
  std::uint8_t generation = 0;
  std::uint16_t communicator = 0;
  std::uint64_t identity = 0;  ///< of this communicator among all that ever have its id; equal on all its ranks
  std::string name{};          ///< "world", "tp"; empty: texts show the id

  int size() const noexcept { return static_cast<int>(world_ranks.size()); }
  /// The World's number of a rank of the communicator; the same number where no World ranks are known.
  int world_rank(int place) const noexcept {
    const auto p = static_cast<std::size_t>(place);
    return p < world_ranks.size() ? world_ranks[p] : place;
  }
  /// The communicator's number of a rank of the World; -1: it is not in it.
  int place_of(int world_rank) const noexcept {
    const auto at = std::ranges::find(world_ranks, world_rank);
    return at == world_ranks.end() ? -1 : static_cast<int>(at - world_ranks.begin());
  }

  /// "tp of 2"
  SINEW_API std::string text() const;
  /// "rank 5"; where the communicator numbers it otherwise, "rank 5 (1 in tp)".
  SINEW_API std::string rank_text(int place) const;
  /// "ranks 4, 5 (0, 1 in tp)"; of many the first eight.
  SINEW_API std::string ranks_text(std::span<const int> places) const;
};

}  // namespace sinew
