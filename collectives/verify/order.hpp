#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <sinew/collectives/schedule.hpp>

namespace sinew::verifier {

/// Finds a step of a set that is not among the predecessors, at any distance, of a later step.
class Order {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  explicit Order(const Program& p) : program_(p), seen_(p.steps.size(), kNone), wanted_(p.steps.size(), kNone) {}

  /// Looks at near predecessors first and stops when all are found: mostly after one look.
  Index unordered(Index step, const std::vector<Index>& earlier) {
    Index missing = 0;
    Index lowest = step;
    for (const Index e : earlier) {
      if (wanted_[e] == step) continue;
      wanted_[e] = step;
      lowest = std::min(lowest, e);
      ++missing;
    }
    queue_.assign(1, step);
    for (std::size_t at = 0; missing > 0 && at < queue_.size(); ++at) {
      const DepRange deps = program_.steps[queue_[at]].deps;
      for (Index k = 0; k < deps.count; ++k) {
        const Index d = program_.dependencies[deps.first + k];
        if (d < lowest || seen_[d] == step) continue;
        seen_[d] = step;
        if (wanted_[d] == step) --missing;
        queue_.push_back(d);
      }
    }
    if (missing == 0) return kNone;
    return *std::find_if(earlier.begin(), earlier.end(), [&](Index e) { return seen_[e] != step; });
  }

 private:
  const Program& program_;
  std::vector<Index> seen_;    ///< the step whose predecessors were last walked through here
  std::vector<Index> wanted_;  ///< the step that must come after this one
  std::vector<Index> queue_;
};

}  // namespace sinew::verifier
