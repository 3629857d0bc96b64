#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

/// A linear layer, out = x * weight^T + bias, that the ranks of an axis share.
/// Shape: x [rows, inputs], weight [outputs, inputs], out [rows, outputs]; all counted as a whole.
struct LinearShape {
  std::string name;  ///< "blocks.0.mlp.up"
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  Shard cut{};  ///< of outputs (column-parallel) or inputs (row-parallel): offsets, any lengths; `dim` is not looked at
  /// Sequence parallelism: outside the layer each rank has its rows only; cut of them as `row_cut` says.
  bool sequence_parallel = false;
  Shard row_cut{};
  /// With sequence parallelism: rows are multiplied as they come, and sent on as they are summed (RingRows), instead of
  /// a collective before or after the product.
  bool decomposed = false;
  /// Of what is cut, where its sums are layout-invariant (invariant/leaves.hpp): each rank has as many. 0: its sums are
  /// made as is fastest. Not with `decomposed`.
  std::int64_t leaves = 0;

  CallOptions options() const noexcept {
    return {.determinism = leaves > 0 ? Determinism::LayoutInvariant : Determinism::Fast};
  }
};

/// The cut itself. Errors: InvalidArgument naming layer and axis, as require_valid, for one that does not cut `extent`.
SINEW_API Shard checked_cut(Shard cut, int ranks, std::int64_t extent, const std::string& name,
                            const std::string& axis);

}  // namespace sinew::parallel
