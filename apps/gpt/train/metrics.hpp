#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include <sinew/parallel/expert/router_states.hpp>
#include <sinew/parallel/optim/update_rule/loss_scaling.hpp>

#include "../shape.hpp"

namespace gpt {

/// What a step was. Units: loss in nats per byte, of the whole batch; seconds of wall clock, of this rank.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0;
  double norm = 0;  ///< of the gradients, before clipping
  double rate = 0;
  double seconds = 0;
  double exposed_s = 0;  ///< of these spent waiting for data-parallel ranks and other stages
  double tokens_per_s = 0;
  sp::RouterReport routers{};  ///< of a model with experts
  int worst_block = 0;         ///< the block of routers.worst_layer
  double loss_scale = 1;       ///< of the loss in this step
  bool is_skipped = false;     ///< gradients overflowed, so that nothing was updated; `norm` is infinite then
  std::optional<sp::LossScaleState> scaling{};  ///< after the step; {}: the loss is not scaled
};

/// A JSON object per line: {"step","loss","tokens_per_s","exposed_s","seconds","norm","rate"}, each whole when the step
/// ends. With experts also {"auxiliary","z","routed","dropped","imbalance","busiest_block","busiest_expert"}.
/// With a loss scale also {"loss_scale","skipped","skipped_steps"}; the norm of a skipped step is null.
class Metrics {
 public:
  /// Empty: nothing is written. Lines of steps before `first` stay, where there are any: a resumed run goes on.
  /// Errors: Error{System} naming the file, here and from add.
  Metrics(std::string file, std::int64_t first);
  void add(const StepReport& report);

 private:
  std::string name_;
  std::ofstream file_;
};

/// "step 12 loss 3.4567 norm 1.23 12345 tokens/s exposed 3 %".
std::string line_of(const StepReport& report);

}  // namespace gpt
