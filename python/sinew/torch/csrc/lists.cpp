#include "lists.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <cstddef>

namespace sinew::torch_backend {
namespace {

struct Staged {
  ListBuffer list;
  at::Tensor memory;
};

Staged stage(Buffers& buffers, at::TensorList tensors) {
  Staged s;
  const Element element = moved_element(tensors.front().scalar_type());
  std::int64_t total = 0;
  for (const at::Tensor& t : tensors) {
    total += t.numel();
    s.list.counts.push_back(static_cast<std::uint64_t>(t.numel()) * element.each);
    s.list.equal = s.list.equal && s.list.counts.back() == s.list.counts.front();
  }
  s.memory = at::empty({total}, tensors.front().options().memory_format(at::MemoryFormat::Contiguous));
  s.list.memory = {static_cast<std::byte*>(s.memory.mutable_data_ptr()), s.memory.nbytes()};
  buffers.hold(s.memory);
  return s;
}

}  // namespace

ListBuffer read_list(Buffers& buffers, at::TensorList tensors) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Staged s = stage(buffers, tensors);
  std::int64_t first = 0;
  for (const at::Tensor& t : tensors) {
    s.memory.narrow(0, first, t.numel()).view(t.sizes()).copy_(t);
    first += t.numel();
  }
  return std::move(s.list);
}

ListBuffer write_list(Buffers& buffers, at::TensorList tensors) {
  for (const at::Tensor& t : tensors) at::assert_no_internal_overlap(t);
  const at::AutoDispatchBelowADInplaceOrView guard;
  Staged s = stage(buffers, tensors);
  std::int64_t first = 0;
  for (const at::Tensor& t : tensors) {
    buffers.copy_later(s.memory.narrow(0, first, t.numel()).view(t.sizes()), t);
    first += t.numel();
  }
  return std::move(s.list);
}

}  // namespace sinew::torch_backend
