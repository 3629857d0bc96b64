#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/cuda_ipc/scratch.hpp>

namespace sinew::cuda_ipc {

Scratch::Scratch(cuda::Runtime& runtime, int device)
    : runtime_(runtime), own_(runtime.allocate(2 * kFragmentBytes, {MemoryKind::Device, device})) {}

Scratch::~Scratch() {
  const cuda::Current current(runtime_.context_of(device()));
  for (std::byte* m : mapped_) cuda::driver().ipc_close(reinterpret_cast<cuda::Pointer>(m));
  runtime_.release(own_);
}

Bytes Scratch::card() const {
  const cuda::Current current(runtime_.context_of(device()));
  Card card{.address = reinterpret_cast<std::uint64_t>(own_.data), .handle = {}, .process = ::getpid(), .bus_id = {}};
  const std::string bus_id = runtime_.traits(device()).bus_id;
  bus_id.copy(card.bus_id, sizeof card.bus_id - 1);
  cuda::check(cuda::driver().ipc_export(&card.handle, reinterpret_cast<cuda::Pointer>(own_.data)), "cuIpcGetMemHandle");
  const auto* first = reinterpret_cast<const std::byte*>(&card);
  return {first, first + sizeof card};
}

void Scratch::join(const Bytes& bytes, bool same_process, bool self) {
  Card card{};
  if (bytes.size() != sizeof card)
    throw Error(Code::System, fmt::format("cuda_ipc: the card of rank {} has {} bytes, expected {}: another version?",
                                          ranks_.size(), bytes.size(), sizeof card));
  std::memcpy(&card, bytes.data(), sizeof card);
  processes_[std::string(card.bus_id, ::strnlen(card.bus_id, sizeof card.bus_id))].insert(card.process);
  if (self || same_process) {
    ranks_.push_back(reinterpret_cast<std::byte*>(card.address));
    return;
  }
  const cuda::Current current(runtime_.context_of(device()));
  cuda::Pointer mapped = 0;
  cuda::check(cuda::driver().ipc_import(&mapped, card.handle, cuda::kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  mapped_.push_back(reinterpret_cast<std::byte*>(mapped));
  ranks_.push_back(mapped_.back());
}

int Scratch::processes_on_a_device() const {
  std::size_t most = 1;
  for (const auto& [device, processes] : processes_) most = std::max(most, processes.size());
  return static_cast<int>(most);
}

}  // namespace sinew::cuda_ipc
