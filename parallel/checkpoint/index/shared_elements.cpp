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

std::vector<ElementRun> without(const std::vector<ElementRun>& wanted, const std::vector<SharedElements>& shared) {
  std::vector<ElementRun> left;
  auto s = shared.begin();
  for (ElementRun run : wanted) {
    for (; s != shared.end() && s->wanted_at < run.at + run.last - run.first; ++s) {
      const std::int64_t before = s->wanted_at - run.at;
      if (before > 0) left.push_back({run.first, run.first + before, run.at});
      run = {run.first + before + s->count, run.last, s->wanted_at + s->count};
    }
    if (run.first < run.last) left.push_back(run);
  }
  return left;
}

}  // namespace sinew::parallel
