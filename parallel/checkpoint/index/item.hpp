#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/box.hpp>

namespace sinew::parallel {

/// A tensor of a checkpoint, as a whole: the same whatever layout it was saved from.
/// Shape: row-major; {} is one number.
struct CheckpointItem {
  std::string name;  ///< "blocks.0.attention.weight"
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;

  SINEW_API std::int64_t elements() const noexcept;
  /// "'w1' (f32 [8, 1024])"
  SINEW_API std::string to_string() const;
  friend bool operator==(const CheckpointItem&, const CheckpointItem&) = default;
};

/// Which elements of an item: [first, last) of a box of it, counted row by row within the box. So a part of the
/// flattened rest that a tensor-parallel rank holds has a name, too.
struct Extent {
  Box box;
  std::int64_t first = 0, last = 0;

  std::int64_t elements() const noexcept { return last - first; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

SINEW_API Extent whole_of(const CheckpointItem& item);
/// Elements [first, last) of the whole, row by row.
SINEW_API Extent range_of(const CheckpointItem& item, std::int64_t first, std::int64_t last);
/// All of a box.
SINEW_API Extent box_of(Box box);

/// What this rank holds of an item.
/// Shape: the buffer, in host memory, has the extent's elements one behind the other.
struct CheckpointPart {
  CheckpointItem item;
  Extent extent;
  Buffer buffer;
};

/// Elements [first, last) of the whole that lie one behind the other in a part, from its element `at` on.
struct ElementRun {
  std::int64_t first = 0, last = 0, at = 0;
};

/// Ascending, and in order of `at`; the fewest that there are.
std::vector<ElementRun> runs_of(const CheckpointItem& item, const Extent& extent);

/// The one of the equal extents that all ranks write: elements that are one run are a range of the whole.
Extent normal_extent(const CheckpointItem& item, const Extent& extent);

/// "elements [8, 12)" or "box [0:4, 2:8]", or a range of a box.
std::string text_of(const CheckpointItem& item, const Extent& extent);

/// Errors: InvalidArgument for a shape with negative extents or more elements than 2^62 bytes, a name that is empty, an
///         extent that does not lie in the item, and one of more than 2^22 rows that are parts of the item's.
void require_valid(const CheckpointItem& item, const Extent& extent);

/// Errors: as above; InvalidArgument for a buffer of another length, or in device memory.
void require_valid(const CheckpointPart& part);

}  // namespace sinew::parallel
