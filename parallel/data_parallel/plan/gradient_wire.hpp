#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
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
  /// Sums sharded gradients by all-to-alls of int4 blocks of 64 elements with a bf16 scale, instead of reduce-scatters.
  /// Each rank sends its gradients of a shard, encoded, towards the rank that owns the shard. That rank decodes them
  /// and adds them in f32, in the order of the ranks. With DataOptions::scatter_axes this has two stages. The sums of
  /// the first stage stay in f32, and are encoded again for the second. Gradients may be f64, f32, bf16 or f16. They
  /// are encoded once or twice on their way, whatever the number of ranks.
  /// If an element is infinite or NaN on some rank, the sum of its block is NaN. The result depends on the layout, but
  /// not on the algorithm or the transport. Sums along axes that do not shard, as those of hsdp's copies, are plain.
  /// Cost:   about 1.1 bytes for each element of a unit on top of its gradients, while these are sent.
  /// Source: qgZ of ZeRO++ (Wang et al., arXiv 2306.10209).
  bool int4 = false;
};

/// Every reason why these gradients cannot be sent this way, in words. Empty: they can.
SINEW_API std::vector<std::string> violations_of(const GradientWire& wire, Determinism determinism, const DataRow& row,
                                                 const std::vector<DataParameter>& parameters);

/// Encodes and decodes values + residual. `values` becomes the result, and `residual` becomes the rounding error: the
/// sum minus the result. If the error is not finite, as after an overflow, the residual becomes zero: otherwise one bad
/// step would spoil all later ones.
/// Shape: both spans have equal length; blocks begin at each multiple of kScaledBlock.
SINEW_API void feed_back(Codec codec, std::span<float> values, std::span<float> residual);

}  // namespace sinew::parallel
