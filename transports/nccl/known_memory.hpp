#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <sinew/core/transport/current_device.hpp>
#include <sinew/core/transport/offload_memory.hpp>
#include <sinew/transports/nccl/errand.hpp>
#include <sinew/transports/nccl/library/features.hpp>

namespace sinew::nccl {

/// Memory of NCCL's allocator, and what a communicator knows it as. Freed with its last owner.
struct KnownBlock {
  KnownBlock(const Api& api, void* made) noexcept : mem_free(api.mem_free), data(made) {}
  ~KnownBlock() { static_cast<void>(mem_free(data)); }
  KnownBlock(const KnownBlock&) = delete;
  KnownBlock& operator=(const KnownBlock&) = delete;

  Result (*mem_free)(void*);
  void* data;
  void* handle = nullptr;            ///< of the registration or window; null: none, or NCCL has no use for one
  std::atomic<bool> dropped{false};  ///< by whoever it was made for
};

/// The memory that one communicator made, as long as it knows it.
/// Thread: the driver's; what was made may be dropped on any.
class KnownMemory {
 public:
  KnownMemory(const Api& api, DeviceRuntime& runtime, int device) : api_(api), runtime_(runtime), device_(device) {}

  /// Errors: Error{System} with NCCL's words.
  Region allocate(std::size_t bytes);
  std::shared_ptr<Errand> attaching(const Region& region, bool as_window);
  /// Something was dropped that is still known.
  bool has_dropped() const noexcept { return dropped_->load(std::memory_order_relaxed) > 0; }
  /// Has NCCL forget what was dropped, or everything, while the communicator is not at work. The first failure counts.
  Result forget(Comm comm, bool as_window, bool everything);
  /// For who ends the communicator while it still knows them.
  std::vector<std::shared_ptr<const void>> take_all();

 private:
  const Api& api_;
  DeviceRuntime& runtime_;
  const int device_;
  std::vector<std::shared_ptr<KnownBlock>> blocks_;
  std::shared_ptr<std::atomic<int>> dropped_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace sinew::nccl
