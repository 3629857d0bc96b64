#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/expert/router.hpp>

namespace sinew::parallel {

/// The number of assignments that each expert of a layer had, before any was dropped. Counts are added up over passes,
/// and summed over ranks once in a step. They are integers in f64, so they are the same under any layout.
class SINEW_API ExpertLoad {
 public:
  explicit ExpertLoad(std::int64_t experts) : counts_(static_cast<std::size_t>(experts)) {}

  template <class T>
  void add(const Routed<T>& routed) {
    for (const std::int32_t e : routed.chosen) {
      if (e != kNoExpert) counts_[static_cast<std::size_t>(e)] += 1;
    }
  }
  void clear() { counts_.assign(counts_.size(), 0); }

  std::span<double> counts() noexcept { return counts_; }
  std::span<const double> counts() const noexcept { return counts_; }
  /// The load of the most loaded expert divided by the mean. 0 if there is no load.
  double imbalance() const noexcept;
  /// The most loaded expert. If several are equally loaded, it is the first of them.
  std::int64_t busiest() const noexcept;

 private:
  std::vector<double> counts_;
};

/// Adds `rate` to the bias of each expert with less load than the mean, and subtracts it for each expert with more.
/// Errors: InvalidArgument if there is not one bias for each expert.
/// Source: auxiliary-loss-free balancing, Wang et al., arXiv 2408.15664; DeepSeek-V3.
SINEW_API void balance_by_bias(const ExpertLoad& load, double rate, std::span<double> bias);

}  // namespace sinew::parallel
