#include <numeric>

#include <sinew/collectives/hierarchy/near_order.hpp>

namespace sinew {
namespace {

/// Appends `ranks`, parted by the levels below `levels_left`.
void append(const Levels& levels, std::size_t levels_left, const std::vector<int>& ranks, std::vector<int>& order) {
  if (levels_left == 0) {
    order.insert(order.end(), ranks.begin(), ranks.end());
    return;
  }
  for (const std::vector<int>& part : levels.parts(levels_left - 1, ranks))
    append(levels, levels_left - 1, part, order);
}

}  // namespace

std::vector<int> near_order(const Levels& levels, int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> order;
  order.reserve(all.size());
  append(levels, levels.part_of.size(), all, order);
  return order;
}

}  // namespace sinew
