#include "lists.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sinew::torch_backend {
namespace {

/// The first byte of a tensor's elements and the one behind its last, wherever in between the elements lie.
std::pair<const std::byte*, const std::byte*> extent(const at::Tensor& t) {
  const auto* first = static_cast<const std::byte*>(t.const_data_ptr());
  if (t.numel() == 0) return {first, first};
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {first, first + (static_cast<std::size_t>(last) + 1) * t.element_size()};
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [first_a, end_a] = extent(a);
  const auto [first_b, end_b] = extent(b);
  return first_a < end_b && first_b < end_a;
}

bool any_share_memory(at::TensorList written, at::TensorList read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto shares = [&](const at::Tensor& other) { return shares_memory(written[i], other); };
    if (std::ranges::any_of(written.slice(i + 1), shares) || std::ranges::any_of(read, shares)) return true;
  }
  return false;
}

}  // namespace

ReadList read_list(Buffers& buffers, at::TensorList tensors) {
  ReadList list;
  for (const at::Tensor& t : tensors) list.push_back(buffers.read(t));
  return list;
}

WriteList write_list(Buffers& buffers, at::TensorList tensors, at::TensorList inputs) {
  const bool apart = !any_share_memory(tensors, inputs);
  WriteList list;
  for (const at::Tensor& t : tensors) list.push_back(apart ? buffers.write(t) : buffers.write_later(t));
  return list;
}

at::TensorList elsewhere(const at::Tensor& input, const at::Tensor& place) {
  const bool same = input.const_data_ptr() == place.const_data_ptr() && input.nbytes() == place.nbytes();
  return same ? at::TensorList() : at::TensorList(input);
}

}  // namespace sinew::torch_backend
