#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <sinew/parallel/pipeline/verify/stage_memory.hpp>

namespace sinew::parallel {
namespace {

/// The memory of one rank while it takes its actions.
class StageLevel {
 public:
  explicit StageLevel(const std::vector<StageBytes>& bytes) : bytes_(bytes) {}

  StagePeak run(const std::vector<Action>& actions) && {
    for (const Action& a : actions) {
      take(a);
      ++index_;
    }
    return peak_;
  }

 private:
  struct Sum {
    std::int64_t begun = 0;  // number of the Reduce or Unshard
    bool recent = true;      // it began after the last place at which a stage began to add gradients
    std::int64_t bytes = 0;
  };

  const StageBytes& of(std::int32_t stage) const noexcept { return bytes_[static_cast<std::size_t>(stage)]; }

  void take(const Action& a) {
    if (is_compute(a.kind)) begin_use(a.stage);
    if (a.kind == ActionKind::Reshard) gathered_ -= of(a.stage).parameters;
    if (a.kind == ActionKind::Reduce) reduce(a.stage);
    if (a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient) begin_gradients(a.stage);
    if (a.kind == ActionKind::Unshard && of(a.stage).parameters > 0) {
      gathered_ += of(a.stage).parameters;
      unused_[a.stage] = next_++;
    }
    raise();
  }

  /// The first compute of an unsharded stage: exchanges end in their order, up to the gather.
  void begin_use(std::int32_t stage) {
    const auto found = unused_.find(stage);
    if (found == unused_.end()) return;
    std::erase_if(sums_, [&](const auto& sum) { return sum.second.begun < found->second; });
    unused_.erase(found);
  }

  void begin_gradients(std::int32_t stage) {
    if (added_.contains(stage)) return;
    // The stage adds to memory of its earlier sum, for which it waits. Exchanges that are older end before it.
    std::int64_t until = -1;
    for (const auto& [of_stage, sum] : sums_) {
      if (of_stage == stage || !sum.recent) until = std::max(until, sum.begun);
    }
    std::erase_if(sums_, [&](const auto& sum) { return sum.second.begun <= until; });
    added_[stage] = of(stage).gradients;
    adds_up_ = true;
  }

  void reduce(std::int32_t stage) {
    const std::int64_t again = has_sum_[stage] ? of(stage).shard : 0;
    has_sum_[stage] = true;
    added_.erase(stage);
    if (std::exchange(adds_up_, false)) {
      for (auto& [of_stage, sum] : sums_) sum.recent = false;
    }
    sums_[stage] = {next_++, true, of(stage).gradients + again};
  }

  void raise() {
    std::int64_t now = gathered_;
    for (const auto& [stage, bytes] : added_) now += bytes;
    for (const auto& [stage, sum] : sums_) now += sum.bytes;
    peak_.parameters = std::max(peak_.parameters, gathered_);
    if (now <= peak_.bytes) return;
    peak_.bytes = now;
    peak_.index = index_;
  }

  const std::vector<StageBytes>& bytes_;
  std::int64_t gathered_ = 0, next_ = 0;
  std::map<std::int32_t, std::int64_t> unused_;  // by stage that is unsharded and has not computed: its number
  std::map<std::int32_t, std::int64_t> added_;   // by stage: bytes of gradients that are added up
  std::map<std::int32_t, Sum> sums_;             // by stage: gradients on their way
  std::map<std::int32_t, bool> has_sum_;
  bool adds_up_ = false;  // a stage has begun to add gradients after the last Reduce
  std::int32_t index_ = 0;
  StagePeak peak_;
};

}  // namespace

StageMemory stage_memory(const PipelineSchedule& schedule, const std::vector<StageBytes>& bytes) {
  StageMemory memory;
  for (const std::vector<Action>& actions : schedule.actions) memory.most.push_back(StageLevel(bytes).run(actions));
  return memory;
}

}  // namespace sinew::parallel
