#pragma once

#include <cstdint>
#include <optional>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/optim/update_rule/loss_scaling.hpp>

namespace sinew::parallel {

/// Chooses the factor by which an engine multiplies its loss, so that small gradients do not become zero in 16 bits. A
/// step whose gradients are not finite is skipped, and lowers the factor. A step:
///
///     compute gradients of scale() times the loss;  owned = data.finish_backward();
///     const double norm = gradient_norm(data, owned);                // of the scaled gradients
///     if (const std::optional<double> unscale = scaler.unscale(norm)) {
///       optimizer.update(owned, *unscale * clip_scale(norm * *unscale, 1.0));  // clipping is optional
///       data.updated();
///     } else {
///       data.abandon_step();                                         // nothing of the step is left
///     }
///     data.scale_feedback(scaler.change());                          // only needed with GradientWire::error_feedback
///
/// A LossScaler does not communicate. gradient_norm() is infinite or NaN on all ranks if the gradients of any rank are,
/// so that all ranks skip the same steps. If a job has several norms, for example one of experts, unscale() takes the
/// norm of all of them together.
/// Each rank has a LossScaler of its own, with the same options and the same calls.
/// Source: Micikevicius et al., arXiv 1710.03740; torch.amp.GradScaler.
class SINEW_API LossScaler {
 public:
  /// Errors: InvalidArgument that lists all options out of range.
  explicit LossScaler(const LossScalerOptions& options = {});

  /// The factor of the present step's loss.
  double scale() const noexcept { return state_.scale; }
  /// Ends the present step, and chooses the scale of the next one. Returns the factor that undoes the scale, for
  /// Optimizer::update. Returns nothing if the step is to be skipped, because `norm` is infinite or NaN.
  /// norm: the norm of the scaled gradients. It is also infinite if the sum of their squares exceeds the largest
  ///       double. This needs gradients of f64 above 1e154. Such a step is skipped too, and a lower scale mends it.
  /// Errors: InvalidArgument for a norm below 0; nothing changes then.
  [[nodiscard]] std::optional<double> unscale(double norm);
  /// The factor by which the last unscale() changed the scale. 1 before the first one and after restore().
  double change() const noexcept { return change_; }
  /// Returns whether an overflow now would leave the scale as it is, because it is fixed or at its least.
  bool is_lowest() const noexcept { return options_.is_fixed || state_.scale <= options_.least; }

  const LossScalerOptions& options() const noexcept { return options_; }
  /// The state between two steps, for CheckpointMetadata::loss_scale.
  const LossScaleState& state() const noexcept { return state_; }
  /// Goes on from an earlier state. A scale beyond the limits of the options becomes the nearest limit. A fixed scale
  /// stays as it is.
  /// Errors: InvalidArgument that names what cannot be: a scale that is not a finite number above 0, or a negative
  ///         number of steps. The state is unchanged then.
  void restore(const LossScaleState& state);

 private:
  LossScalerOptions options_;
  LossScaleState state_;
  double change_ = 1;
};

}  // namespace sinew::parallel
