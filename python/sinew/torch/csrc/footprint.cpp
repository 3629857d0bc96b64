#include "footprint.hpp"

#include <algorithm>
#include <cstdint>

namespace sinew::torch_backend {
namespace {

const std::byte* begin_of(const at::Tensor& t) { return static_cast<const std::byte*>(t.const_data_ptr()); }

/// The byte behind the last element, wherever the elements lie.
const std::byte* end_of(const at::Tensor& t) {
  if (t.numel() == 0) return begin_of(t);
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return begin_of(t) + (static_cast<std::size_t>(last) + 1) * t.element_size();
}

bool at_its_place(const at::Tensor& part, const at::Tensor& all, int rank) {
  return part.is_contiguous() && all.is_contiguous() &&
         begin_of(part) == begin_of(all) + static_cast<std::size_t>(rank) * part.nbytes();
}

}  // namespace

Footprint& Footprint::add(Range range) {
  if (range.first != range.end) ranges_.push_back(range);
  return *this;
}

Footprint& Footprint::add(const at::Tensor& tensor, bool written) {
  return add({begin_of(tensor), end_of(tensor), written});
}

Footprint& Footprint::add(at::TensorList tensors, bool written) {
  for (const at::Tensor& t : tensors) add(t, written);
  return *this;
}

Footprint& Footprint::read_part(const at::Tensor& part, const at::Tensor& all, int rank) {
  return at_its_place(part, all, rank) ? *this : read(part);
}

Footprint& Footprint::read_all(const at::Tensor& all, const at::Tensor& part, int rank) {
  if (!at_its_place(part, all, rank)) return read(all);
  return add({begin_of(all), begin_of(part), false}).add({end_of(part), end_of(all), false});
}

bool Footprint::overlaps() {
  std::ranges::sort(ranges_, {}, &Range::first);
  const std::byte* end_of_all = nullptr;
  const std::byte* end_of_written = nullptr;
  for (const Range& range : ranges_) {
    if (range.first < (range.written ? end_of_all : end_of_written)) return true;
    end_of_all = std::max(end_of_all, range.end);
    if (range.written) end_of_written = std::max(end_of_written, range.end);
  }
  return false;
}

}  // namespace sinew::torch_backend
