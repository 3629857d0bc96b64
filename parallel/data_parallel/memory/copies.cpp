#include <algorithm>
#include <cstring>
#include <memory>

#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/data_parallel/memory/copies.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kZeros = 1 << 20;

}  // namespace

Memory Copies::allocate(std::size_t bytes) {
  DeviceRuntime* runtime = device_.runtime;
  const Buffer memory = runtime->allocate(bytes, {MemoryKind::Device, device_.stream.device});
  const auto release = [runtime, memory](const void*) { runtime->release(memory); };
  return {Region{memory, std::shared_ptr<const void>(memory.data, release)}, "device memory"};
}

void Copies::zero(Buffer memory) {
  if (memory.place.kind != MemoryKind::Device) {
    std::memset(memory.data, 0, memory.bytes);
    return;
  }
  zeros_.resize(kZeros);
  for (std::size_t at = 0; at < memory.bytes; at += kZeros) {
    const std::size_t bytes = std::min(kZeros, memory.bytes - at);
    begin(memory.part(at, bytes), ConstBuffer(zeros_.data(), bytes));
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

}  // namespace sinew::parallel
