#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/data_parallel/step_plan.hpp>

namespace sinew::parallel {

/// How gradients travel. A codec is for gradients of f32; sums are made in f32 (core/numeric/codec.hpp).
struct GradientWire {
  Codec codec = Codec::None;
  /// What coding takes from this rank's gradients is added to them in the next step, so that nothing is lost for good:
  /// what is too small beside its block's largest gets through in the end. Costs a buffer of the gradients' size
  /// (Purpose::Residual) and one pass over them. What sums lose on their way stays lost, and a step that is given up
  /// takes what was owed with it: nothing tells its part from older ones.
  /// Source: Seide et al. 2014 (1-bit SGD); Karimireddy et al. 2019 (arXiv 1901.09847).
  bool error_feedback = false;
};

/// Every reason why these gradients cannot travel so, in words; nothing where they can.
SINEW_API std::vector<std::string> violations_of(const GradientWire& wire, Determinism determinism,
                                                 const std::vector<DataParameter>& parameters);

/// Makes values + residual what the codec makes of it, in `values`, and `residual` what that loses. Where it is not
/// finite, as after an overflow, the residual is zero: one bad step would spoil all later ones.
/// Shape: both of equal length; blocks begin at each multiple of kInt8Block.
SINEW_API void feed_back(Codec codec, std::span<float> values, std::span<float> residual);

}  // namespace sinew::parallel
