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

bool on_device(at::TensorList tensors) { return !tensors.empty() && !tensors.front().device().is_cpu(); }

std::vector<std::uint64_t> bytes_of(at::TensorList tensors) {
  std::vector<std::uint64_t> bytes;
  for (const at::Tensor& t : tensors) bytes.push_back(t.nbytes());
  return bytes;
}

}  // namespace

ReadList read_list(Buffers& buffers, at::TensorList tensors) {
  ReadList list;
  if (on_device(tensors)) {
    list.bytes = bytes_of(tensors);
    list.whole = buffers.read_joined(tensors);
  } else {
    for (const at::Tensor& t : tensors) list.each.push_back(buffers.read(t));
  }
  return list;
}

WriteList write_list(Buffers& buffers, at::TensorList tensors, at::TensorList inputs) {
  WriteList list;
  if (on_device(tensors)) {
    list.bytes = bytes_of(tensors);
    list.whole = buffers.write_joined(tensors);
    return list;
  }
  const bool apart = !any_share_memory(tensors, inputs);
  for (const at::Tensor& t : tensors) list.each.push_back(apart ? buffers.write(t) : buffers.write_later(t));
  return list;
}

Buffer write_one(Buffers& buffers, const at::Tensor& tensor, at::TensorList inputs) {
  return any_share_memory(tensor, inputs) ? buffers.write_later(tensor) : buffers.write(tensor);
}

at::TensorList elsewhere(const at::Tensor& input, const at::Tensor& place) {
  const bool same = input.const_data_ptr() == place.const_data_ptr() && input.nbytes() == place.nbytes();
  return same ? at::TensorList() : at::TensorList(input);
}

namespace lists {

Work all_gather(Communicator& c, ConstBuffer in, const WriteList& out, DType dtype, const CallOptions& options) {
  if (!out.joined()) return c.all_gather(in, out.each, dtype, options);
  if (out.equal()) return c.all_gather(in, out.whole, dtype, options);
  return c.all_gather_v(in, out.whole, dtype, Parts{out.counts(dtype), {}}, options);
}

Work reduce_scatter(Communicator& c, const ReadList& in, Buffer out, const Reduction& how, const CallOptions& options) {
  if (!in.joined()) return c.reduce_scatter(in.each, out, how.dtype, how.op, options);
  if (in.equal()) return c.reduce_scatter(in.whole, out, how.dtype, how.op, options);
  return c.reduce_scatter_v(in.whole, out, how.dtype, Parts{in.counts(how.dtype), {}}, how.op, options);
}

Work gather(Communicator& c, ConstBuffer in, const WriteList& out, DType dtype, int root, const CallOptions& options) {
  if (in.place.kind == MemoryKind::Host) return c.gather(in, out.each, dtype, root, options);
  return c.gather(in, out.whole, dtype, root, options);
}

Work scatter(Communicator& c, const ReadList& in, Buffer out, DType dtype, int root, const CallOptions& options) {
  if (out.place.kind == MemoryKind::Host) return c.scatter(in.each, out, dtype, root, options);
  return c.scatter(in.whole, out, dtype, root, options);
}

Work all_to_all(Communicator& c, const ReadList& in, const WriteList& out, DType dtype, const CallOptions& options) {
  if (!in.joined()) return c.all_to_all(in.each, out.each, dtype, options);
  return c.all_to_all_v(in.whole, out.whole, dtype, Parts{in.counts(dtype), {}}, Parts{out.counts(dtype), {}}, options);
}

}  // namespace lists
}  // namespace sinew::torch_backend
