#include <algorithm>

#include <sinew/parallel/checkpoint/index/shared_elements.hpp>

namespace sinew::parallel {

std::vector<SharedElements> shared_elements(const std::vector<ElementRun>& stored,
                                            const std::vector<ElementRun>& wanted) {
  std::vector<SharedElements> all;
  auto s = stored.begin(), w = wanted.begin();
  while (s != stored.end() && w != wanted.end()) {
    const std::int64_t first = std::max(s->first, w->first), last = std::min(s->last, w->last);
    if (first < last) all.push_back({last - first, s->at + first - s->first, w->at + first - w->first});
    if (s->last < w->last) {
      ++s;
    } else {
      ++w;
    }
  }
  return all;
}

}  // namespace sinew::parallel
