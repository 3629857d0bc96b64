#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/call/group.hpp>

namespace sinew {
namespace {

constexpr std::size_t kMostRanksShown = 8;

std::string shown_name(const Group& group) {
  return group.name.empty() ? fmt::format("communicator {}", group.communicator) : group.name;
}

}  // namespace

std::string Group::text() const { return fmt::format("{} of {}", shown_name(*this), size()); }

std::string Group::rank_text(int place) const { return ranks_text(std::array{place}); }

std::string Group::ranks_text(std::span<const int> places) const {
  std::vector<int> shown(places.begin(), places.end());
  std::ranges::sort(shown, {}, [this](int place) { return world_rank(place); });
  const std::size_t more = shown.size() - std::min(shown.size(), kMostRanksShown);
  shown.resize(shown.size() - more);
  std::vector<int> numbers;
  for (const int place : shown) numbers.push_back(world_rank(place));
  std::string text = fmt::format("{} {}", shown.size() == 1 ? "rank" : "ranks", fmt::join(numbers, ", "));
  if (more > 0) text += fmt::format(" and {} more", more);
  if (numbers != shown) text += fmt::format(" ({} in {})", fmt::join(shown, ", "), shown_name(*this));
  return text;
}

}  // namespace sinew
