#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The most characters that Group::name may have. Call records reserve this much space.
inline constexpr std::size_t kLongestGroupName = 47;

/// The members of a communicator. All fields but `rank` are equal on all members.
/// Error texts show World ranks. If a rank has another number in the communicator, they show that number, too.
struct Group {
  int rank = 0;
  std::vector<int> world_ranks;
  std::uint8_t generation = 0;
  std::uint16_t communicator = 0;
  std::uint64_t identity = 0;  ///< of this communicator among all that ever have its id; equal on all its ranks
  std::string name{};          ///< such as "world" or "tp"; if it is empty, texts show the id

  int size() const noexcept { return static_cast<int>(world_ranks.size()); }
  /// Converts a rank of the communicator to a World rank. Returns `place` itself if world_ranks is empty.
  int world_rank(int place) const noexcept {
    const auto p = static_cast<std::size_t>(place);
    return p < world_ranks.size() ? world_ranks[p] : place;
  }
  /// Converts a World rank to a rank of the communicator. Returns -1 if that rank is not a member.
  int place_of(int world_rank) const noexcept {
    const auto at = std::ranges::find(world_ranks, world_rank);
    return at == world_ranks.end() ? -1 : static_cast<int>(at - world_ranks.begin());
  }

  /// Name and size, such as "tp of 2".
  SINEW_API std::string text() const;
  /// Names a rank of the communicator: "rank 5", or "rank 5 (1 in tp)" if the two numbers differ.
  SINEW_API std::string rank_text(int place) const;
  /// Names several ranks: "ranks 4, 5 (0, 1 in tp)". At most eight are listed, then "and 3 more".
  SINEW_API std::string ranks_text(std::span<const int> places) const;
};

}  // namespace sinew
