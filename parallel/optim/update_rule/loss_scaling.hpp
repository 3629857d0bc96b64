#pragma once

#include <cstdint>

namespace sinew::parallel {

/// Options of LossScaler. Powers of two change no bit of a gradient, except where it underflows or overflows.
/// Source: the numbers of torch.amp.GradScaler; `least` is that of Megatron-LM (--min-loss-scale).
struct LossScalerOptions {
  double initial = 65536;  ///< the scale of the first step
  double growth = 2;       ///< multiplies the scale after `growth_interval` steps without an overflow
  double backoff = 0.5;    ///< multiplies the scale after a step with an overflow
  std::int64_t growth_interval = 2000;
  double least = 1;
  /// 2^64. So the factor that undoes the scale stays far from the smallest numbers of f32.
  double most = 18446744073709551616.0;
  bool is_fixed = false;  ///< the scale is always `initial`; steps with an overflow are skipped all the same
};

/// The state of a LossScaler, as checkpoints keep it.
struct LossScaleState {
  double scale = 1;
  std::int64_t good_steps = 0;     ///< steps without an overflow since the scale last changed
  std::int64_t skipped_steps = 0;  ///< of the whole training
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

}  // namespace sinew::parallel
