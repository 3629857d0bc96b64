#include "lists.hpp"

#include <algorithm>
#include <cstddef>

namespace sinew::torch_backend {
namespace {

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

WriteList write_list(Buffers& buffers, at::TensorList tensors, bool apart) {
  WriteList list;
  if (on_device(tensors)) {
    list.bytes = bytes_of(tensors);
    list.whole = buffers.write_joined(tensors);
    return list;
  }
  for (const at::Tensor& t : tensors) list.each.push_back(buffers.write(t, apart));
  return list;
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
