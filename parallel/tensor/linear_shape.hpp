#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

/// A linear layer, out = x * weight^T + bias, that the ranks of an axis share.
/// Shape: x [rows, inputs], weight [outputs, inputs], out [rows, outputs]. All counts are those of the whole layer.
struct LinearShape {
  std::string name{};  ///< "blocks.0.mlp.up"
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  /// The cut of the outputs (column-parallel) or of the inputs (row-parallel): offsets of any lengths. `dim` is not
  /// used.
  Shard cut{};
  /// Sequence parallelism: outside the layer each rank has only its rows, as `row_cut` says.
  bool sequence_parallel = false;
  Shard row_cut{};
  /// With sequence parallelism: multiply rows as they arrive, and send rows on as they are summed (RingRows). Otherwise
  /// a collective runs before or after the product.
  bool decomposed = false;
  /// Leaf blocks of the cut dimension, for layout-invariant sums (invariant/leaves.hpp). Each rank has equally many. 0:
  /// sums are made in the fastest way. Not with `decomposed`.
  std::int64_t leaves = 0;

  CallOptions options() const noexcept {
    return {.determinism = leaves > 0 ? Determinism::LayoutInvariant : Determinism::Fast};
  }
};

/// A table with one row for each token of a vocabulary. Each rank has some of the rows: any number, 0 included, without
/// padding.
struct EmbeddingShape {
  std::string name{};
  std::int64_t rows = 0;  ///< tokens of a pass
  std::int64_t vocabulary = 0, width = 0;
  Shard cut{};  ///< of the vocabulary
  bool sequence_parallel = false;
  Shard row_cut{};  ///< the cut of the output rows, with sequence parallelism
};

/// Returns the cut.
/// Errors: InvalidArgument naming layer and axis, as require_valid, for a cut that does not cover `extent`.
SINEW_API Shard checked_cut(Shard cut, int ranks, std::int64_t extent, const std::string& name,
                            const std::string& axis);

}  // namespace sinew::parallel
