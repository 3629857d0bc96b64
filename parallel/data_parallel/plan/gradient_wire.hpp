#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// The encoding of gradients while they are sent. A codec applies to gradients of f32; sums are made in f32
/// (core/numeric/codec.hpp).
struct GradientWire {
  Codec codec = Codec::None;
  /// Adds the codec's rounding errors of this rank's gradients to its gradients of the next step. So a value that is
  /// too small beside the largest value of its block is sent in a later step. Rounding errors of partial sums, which
  /// arise during the exchange, are not kept. abandon_step() drops the errors that are kept.
  /// Cost:   a buffer of the gradients' size (Purpose::Residual) and one pass over it.
  /// Source: Seide et al. 2014 (1-bit SGD); Karimireddy et al. 2019 (arXiv 1901.09847).
  bool error_feedback = false;
};

/// Every reason why these gradients cannot be sent this way, in words. Empty: they can.
SINEW_API std::vector<std::string> violations_of(const GradientWire& wire, Determinism determinism,
                                                 const std::vector<DataParameter>& parameters);

/// Encodes and decodes values + residual. `values` becomes the result, and `residual` becomes the rounding error: the
/// sum minus the result. If the error is not finite, as after an overflow, the residual becomes zero: otherwise one bad
/// step would spoil all later ones.
/// Shape: both spans have equal length; blocks begin at each multiple of kScaledBlock.
SINEW_API void feed_back(Codec codec, std::span<float> values, std::span<float> residual);

}  // namespace sinew::parallel
