#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>

namespace sinew::parallel {

/// A schedule of a generator, by what it is made from.
struct ScheduleShape {
  std::string name = "1f1b";
  std::int32_t ranks = 1, micro_batches = 1, virtual_stages = 1;
  friend auto operator<=>(const ScheduleShape&, const ScheduleShape&) = default;
};

/// Between the forward and the backward pass at once.
struct LiveStages {
  std::vector<std::int32_t> by_rank;  ///< stages whose activations are there: of 1f1b min(m, p - r), of gpipe m
  std::int32_t outputs = 1;  ///< of the last stage: micro-batches whose logits are there, 1 of 1f1b, m of gpipe
  friend bool operator==(const LiveStages&, const LiveStages&) = default;
};

/// Cost: a formula where tests find it equal to what the generator's actions say; else that.
SINEW_API LiveStages live_stages(const ScheduleShape& shape);

/// No schedule of this kind ends sooner: a rank cannot begin before what comes in has passed the stages before it, and
/// what it puts out passes them again, without the gradients of weights where these come later. Equal to what
/// simulate() says of stages of equal costs where there are as many micro-batches as ranks: then 1f1b and gpipe idle
/// (p-1)/m, interleaved (p-1)/(m v) of what they compute.
/// Shape:  costs.stages by stage.
SINEW_API std::int64_t least_makespan(const ScheduleShape& shape, const PipelineCosts& costs);

/// Simulations of schedules, each run once.
class SINEW_API PipelineMakespans {
 public:
  /// Of the whole step; stage costs in nanoseconds.
  std::int64_t makespan(const ScheduleShape& shape, const PipelineCosts& costs);
  int simulated() const noexcept { return static_cast<int>(known_.size()); }

 private:
  using Key = std::tuple<ScheduleShape, std::vector<std::int64_t>>;
  std::map<Key, std::int64_t> known_;
};

}  // namespace sinew::parallel
