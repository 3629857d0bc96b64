#pragma once

// The content of checkpoints. The room describes items and the parts of them that ranks hold, proves that parts cover
// an item, and reads and writes the index. It may include the room `placement` for boxes, `optim/update_rule` for the
// state of a loss scaler, and `sampler` for the state of a sampler.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/box.hpp>

namespace sinew::parallel {

/// A tensor of a checkpoint as a whole. It is the same for every layout from which it is saved.
/// Shape: row-major. {} is the shape of a scalar.
struct CheckpointItem {
  std::string name{};  ///< "blocks.0.attention.weight"
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape{};

  SINEW_API std::int64_t elements() const noexcept;
  /// "'w1' (f32 [8, 1024])"
  SINEW_API std::string to_string() const;
  friend bool operator==(const CheckpointItem&, const CheckpointItem&) = default;
};

/// Elements of an item: [first, last) of a box of the item, counted row by row within the box. So a range of a
/// flattened tensor-parallel part is an extent too.
struct Extent {
  Box box{};
  std::int64_t first = 0, last = 0;

  std::int64_t elements() const noexcept { return last - first; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

SINEW_API Extent whole_of(const CheckpointItem& item);
/// Elements [first, last) of the whole item, row by row.
SINEW_API Extent range_of(const CheckpointItem& item, std::int64_t first, std::int64_t last);
/// All elements of a box.
SINEW_API Extent box_of(Box box);

/// The part of an item that this rank holds.
/// Shape: the buffer is in host memory, and has the elements of the extent one after the other.
struct CheckpointPart {
  CheckpointItem item{};
  Extent extent{};
  Buffer buffer{};
};

/// Elements [first, last) of the whole item that lie one after the other in a part, beginning at its element `at`.
struct ElementRun {
  std::int64_t first = 0, last = 0, at = 0;
};

/// The fewest runs that make up the extent. They ascend, and are in the order of `at`.
std::vector<ElementRun> runs_of(const CheckpointItem& item, const Extent& extent);

/// Several extents can have the same elements. Returns the one that all ranks use: a range of the whole item if the
/// elements are one run, otherwise `extent` itself.
Extent normal_extent(const CheckpointItem& item, const Extent& extent);

/// "elements [8, 12)" or "box [0:4, 2:8]", or a range of a box.
std::string text_of(const CheckpointItem& item, const Extent& extent);

/// Errors: InvalidArgument for a shape with negative extents or with more elements than 2^62 bytes have, and for an
///         empty name. Also for an extent that does not lie in the item, and for one of more than 2^22 rows that are
///         parts of the item's rows.
void require_valid(const CheckpointItem& item, const Extent& extent);

/// Errors: as above. InvalidArgument for a buffer of another length, or in device memory.
void require_valid(const CheckpointPart& part);

}  // namespace sinew::parallel
