#include <algorithm>
#include <cstring>

#include <sinew/transports/cuda_ipc/ipc_memory.hpp>

namespace sinew::cuda_ipc {

std::optional<PeerMemory::Exported> IpcMemory::export_memory(ConstBuffer memory) {
  const cuda::Current current(runtime_.context_of(device_));
  const cuda::Driver& driver = cuda::driver();
  const auto at = reinterpret_cast<cuda::Pointer>(memory.data);
  cuda::Pointer first = 0;
  Exported exported;
  cuda::IpcMemory handle{};
  if (driver.pointer_attribute(&first, cuda::kPointerRangeStart, at) != cuda::kSuccess ||
      driver.pointer_attribute(&exported.allocation, cuda::kPointerBufferId, at) != cuda::kSuccess ||
      driver.ipc_export(&handle, first) != cuda::kSuccess) {
    return std::nullopt;
  }
  std::memcpy(exported.handle.data(), handle.reserved, exported.handle.size());
  exported.offset = at - first;
  return exported;
}

PeerMemory::Mapping IpcMemory::map(const Exported& memory) {
  const auto known = std::ranges::find_if(
      kept_, [&](const Kept& k) { return k.allocation == memory.allocation && k.handle == memory.handle; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    return known->mapping;
  }
  const cuda::Context context = runtime_.context_of(device_);
  const cuda::Current current(context);
  cuda::IpcMemory handle{};
  std::memcpy(handle.reserved, memory.handle.data(), memory.handle.size());
  cuda::Pointer mapped = 0;
  cuda::check(cuda::driver().ipc_import(&mapped, handle, cuda::kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  const auto close = [context](std::byte* at) {
    const cuda::Current in(context);
    cuda::driver().ipc_close(reinterpret_cast<cuda::Pointer>(at));
  };
  kept_.push_front({memory.handle, memory.allocation, Mapping(reinterpret_cast<std::byte*>(mapped), close)});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front().mapping;
}

}  // namespace sinew::cuda_ipc
