#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include <sinew/core/transport/peer_memory.hpp>
#include <sinew/transports/cuda/runtime.hpp>

namespace sinew::cuda_ipc {

/// Exports and maps the memory of CUDA devices by the driver's IPC handles.
class IpcMemory final : public PeerMemory {
 public:
  /// The mappings that are kept when no message uses them. The longest unused one is closed first.
  static constexpr std::size_t kMostKept = 64;

  IpcMemory(cuda::Runtime& runtime, int device) noexcept : runtime_(runtime), device_(device) {}

  std::optional<Exported> export_memory(ConstBuffer memory) override;
  Mapping map(const Exported& memory) override;

 private:
  struct Kept {
    std::array<char, 64> handle;
    std::uint64_t allocation;
    Mapping mapping;
  };

  cuda::Runtime& runtime_;
  const int device_;
  std::list<Kept> kept_;  // the latest used first
};

}  // namespace sinew::cuda_ipc
