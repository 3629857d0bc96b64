#include <algorithm>
#include <cstring>

#include <sinew/parallel/placement/box.hpp>

namespace sinew::parallel {
namespace {

/// Bytes from one index of each dimension to the next.
std::vector<std::ptrdiff_t> strides(const Box& box, std::size_t element_bytes) {
  std::vector<std::ptrdiff_t> bytes(box.first.size());
  auto next = static_cast<std::ptrdiff_t>(element_bytes);
  for (std::size_t d = bytes.size(); d-- > 0;) {
    bytes[d] = next;
    next *= box.extent(d);
  }
  return bytes;
}

std::ptrdiff_t offset(const Box& box, const std::vector<std::ptrdiff_t>& strides, const Box& part) {
  std::ptrdiff_t bytes = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) bytes += (part.first[d] - box.first[d]) * strides[d];
  return bytes;
}

}  // namespace

std::int64_t number_in_whole(std::span<const std::int64_t> shape, const Box& box, std::int64_t k) noexcept {
  std::int64_t number = 0;
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    number += (box.first[d] + k % box.extent(d)) * stride;
    k /= box.extent(d);
    stride *= shape[d];
  }
  return number;
}

std::int64_t Box::elements() const noexcept {
  std::int64_t product = 1;
  for (std::size_t d = 0; d < first.size(); ++d) product *= extent(d);
  return product;
}

Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (std::size_t d = 0; d < a.first.size(); ++d) {
    both.first[d] = std::max(a.first[d], b.first[d]);
    both.last[d] = std::max(both.first[d], std::min(a.last[d], b.last[d]));
  }
  return both;
}

void for_each_rows(const Box& from_box, const Box& to_box, const Box& part, std::size_t element_bytes,
                   const std::function<void(const BoxRows&)>& f) {
  if (part.elements() == 0) return;
  const auto from_strides = strides(from_box, element_bytes);
  const auto to_strides = strides(to_box, element_bytes);
  std::ptrdiff_t from = offset(from_box, from_strides, part), to = offset(to_box, to_strides, part);
  // The last dimensions up to the first that is not whole on both sides are one row.
  BoxRows rows{.row_bytes = element_bytes};
  std::size_t outer = part.first.size();
  for (bool whole = true; whole && outer > 0;) {
    --outer;
    rows.row_bytes *= static_cast<std::size_t>(part.extent(outer));
    whole = part.extent(outer) == from_box.extent(outer) && part.extent(outer) == to_box.extent(outer);
  }
  if (outer > 0) {
    --outer;
    rows.rows = static_cast<std::size_t>(part.extent(outer));
    rows.from_pitch = static_cast<std::size_t>(from_strides[outer]);
    rows.to_pitch = static_cast<std::size_t>(to_strides[outer]);
  }
  std::vector<std::int64_t> index(outer, 0);
  while (true) {
    rows.from = static_cast<std::size_t>(from);
    rows.to = static_cast<std::size_t>(to);
    f(rows);
    std::size_t d = outer;
    for (; d > 0; --d) {  // the next index, from the last dimension on
      from += from_strides[d - 1];
      to += to_strides[d - 1];
      if (++index[d - 1] < part.extent(d - 1)) break;
      from -= from_strides[d - 1] * index[d - 1];
      to -= to_strides[d - 1] * index[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

void copy_box(const std::byte* from, const Box& from_box, std::byte* to, const Box& to_box, const Box& part,
              std::size_t element_bytes) {
  for_each_rows(from_box, to_box, part, element_bytes, [&](const BoxRows& rows) {
    for (std::size_t r = 0; r < rows.rows; ++r)
      std::memcpy(to + rows.to + r * rows.to_pitch, from + rows.from + r * rows.from_pitch, rows.row_bytes);
  });
}

}  // namespace sinew::parallel
