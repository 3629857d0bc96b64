#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>

#include <sinew/collectives/hierarchy/levels.hpp>

namespace sinew {

std::vector<std::vector<int>> Levels::parts(std::size_t level, std::span<const int> ranks) const {
  std::vector<std::vector<int>> parts;
  std::unordered_map<int, std::size_t> place_of;  // among the parts, by number
  for (const int r : ranks) {
    const auto [at, is_new] = place_of.try_emplace(part_of[level][static_cast<std::size_t>(r)], parts.size());
    if (is_new) parts.emplace_back();
    parts[at->second].push_back(r);
  }
  return parts;
}

Levels Levels::without_idle() const {
  Levels kept;
  for (const std::vector<int>& numbers : part_of) {
    const std::size_t parts = std::set<int>(numbers.begin(), numbers.end()).size();
    const bool as_before =
        !kept.part_of.empty() && parts == std::set<int>(kept.part_of.back().begin(), kept.part_of.back().end()).size();
    if (parts > 1 && parts < numbers.size() && !as_before) kept.part_of.push_back(numbers);
  }
  return kept;
}

bool Levels::are_aligned_blocks() const {
  return std::ranges::all_of(part_of, [](const std::vector<int>& numbers) {
    const auto width = static_cast<std::size_t>(std::ranges::count(numbers, numbers.front()));
    if (width < numbers.size() && !std::has_single_bit(width)) return false;
    for (std::size_t r = 1; r < numbers.size(); ++r) {
      if ((numbers[r] == numbers[r - 1]) != (r % width != 0)) return false;
    }
    return std::set<int>(numbers.begin(), numbers.end()).size() == (numbers.size() + width - 1) / width;
  });
}

}  // namespace sinew
