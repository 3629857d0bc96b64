#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sinew::test {

/// The canonical tree told from below, where the code tells it from above: neighbours (0 1), (2 3), ... combine, then
/// those pairs, until one is left; who has no neighbour goes up as it is.
template <class T, class Add>
T balanced_sum(std::vector<T> level, Add add) {
  while (level.size() > 1) {
    std::vector<T> above;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) above.push_back(add(level[i], level[i + 1]));
    if (level.size() % 2 == 1) above.push_back(level.back());
    level = std::move(above);
  }
  return level.front();
}

}  // namespace sinew::test
