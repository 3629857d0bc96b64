#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// Half-open ranges of a tensor's indices, one for each dimension. A box without dimensions is one element.
struct Box {
  std::vector<std::int64_t> first{}, last{};

  std::int64_t extent(std::size_t dim) const noexcept { return last[dim] - first[dim]; }
  SINEW_API std::int64_t elements() const noexcept;
  friend bool operator==(const Box&, const Box&) = default;
};

/// The elements that both boxes have. If they have none in common, the result is a box without elements.
SINEW_API Box intersection(const Box& a, const Box& b);

/// The number in a row-major tensor of this shape of element k of a row-major part of it.
/// Precondition: the box lies in the shape, and k in the box.
SINEW_API std::int64_t number_in_whole(std::span<const std::int64_t> shape, const Box& box, std::int64_t k) noexcept;

/// Rows of a box that lie evenly apart in two buffers. All in bytes, from the beginning of each buffer.
struct BoxRows {
  std::size_t from = 0, to = 0;              ///< of the first row
  std::size_t from_pitch = 0, to_pitch = 0;  ///< from one row to the next
  std::size_t row_bytes = 0, rows = 1;
};
/// Calls f with the rows of `part` in a buffer that holds `from_box` and in a buffer that holds `to_box`. Both are
/// row-major.
/// Shape: `part` lies in both boxes.
SINEW_API void for_each_rows(const Box& from_box, const Box& to_box, const Box& part, std::size_t element_bytes,
                             const std::function<void(const BoxRows&)>& f);

/// Copies `part` from a buffer that holds `from_box` to a buffer that holds `to_box`. Both are row-major.
/// Shape: `part` lies in both boxes. The buffers do not overlap.
SINEW_API void copy_box(const std::byte* from, const Box& from_box, std::byte* to, const Box& to_box, const Box& part,
                        std::size_t element_bytes);

}  // namespace sinew::parallel
