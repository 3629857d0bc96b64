#include <cstring>
#include <memory>
#include <vector>

#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/data_parallel/memory/copies.hpp>
#include <sinew/parallel/kernels/release.hpp>

namespace sinew::parallel {
Memory Copies::allocate(std::size_t bytes) const {
  const Buffer memory = device_.runtime->allocate(bytes, {MemoryKind::Device, device_.stream.device});
  const auto release = [device = device_, memory](const void*) { release_after_work(device, memory); };
  return {Region{memory, std::shared_ptr<const void>(memory.data, release)}, "device memory"};
}

void Copies::zero(Buffer memory) {
  if (memory.place.kind != MemoryKind::Device) {
    std::memset(memory.data, 0, memory.bytes);
  } else if (memory.bytes != 0) {
    device_.runtime->zero_async(memory, device_.stream);
  }
}

void Copies::begin(Buffer to, ConstBuffer from) {
  if (on_device()) {
    device_.runtime->copy_async(to, from, device_.stream);
  } else {
    std::memcpy(to.data, from.data, from.bytes);
  }
}

void Copies::settle() {
  if (on_device()) drain(*device_.runtime, device_.stream);
}

void Copies::add(Buffer into, ConstBuffer more, DType dtype) {
  if (into.place.kind == MemoryKind::Device) {
    device_.runtime->reduce_async(into, into, more, ReduceOp::Sum, dtype, device_.stream);
  } else {
    reducer_for(ReduceOp::Sum, dtype)(into.data, into.data, more.data, into.bytes);
  }
}

void Copies::fill(Buffer to, const std::function<void(Buffer)>& write) {
  if (to.place.kind != MemoryKind::Device) return write(to);
  if (to.bytes == 0) return write({});
  std::vector<std::byte> host(to.bytes);
  const Buffer from{host.data(), host.size()};
  write(from);
  begin(to, from);
  settle();
}

}  // namespace sinew::parallel
