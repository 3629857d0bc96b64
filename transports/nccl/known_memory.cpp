#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/nccl/agreement.hpp>
#include <sinew/transports/nccl/known_memory.hpp>

namespace sinew::nccl {
namespace {

class AttachErrand final : public Errand {
 public:
  AttachErrand(std::shared_ptr<KnownBlock> block, std::size_t bytes, bool as_window)
      : block_(std::move(block)), bytes_(bytes), as_window_(as_window) {}

  const char* function() const noexcept override { return as_window_ ? "ncclCommWindowRegister" : "ncclCommRegister"; }
  Result run(const Api& api, Comm comm) override {
    if (as_window_) return api.comm_window_register(comm, block_->data, bytes_, &block_->handle, kSymmetricWindow);
    return api.comm_register(comm, block_->data, bytes_, &block_->handle);
  }
  void ended(const Status& status) noexcept override {
    if (!status.ok()) block_->handle = nullptr;
  }

 private:
  const std::shared_ptr<KnownBlock> block_;
  const std::size_t bytes_;
  const bool as_window_;
};

}  // namespace

Region KnownMemory::allocate(std::size_t bytes) {
  void* made = nullptr;
  const CurrentDevice current(runtime_, device_);
  if (const Result result = api_.mem_alloc(&made, bytes); result != Result::Success)
    throw Error(Code::System, fmt::format("ncclMemAlloc: {}", words_of(api_, result, nullptr)));
  auto block = std::make_shared<KnownBlock>(api_, made);
  blocks_.push_back(block);
  const auto drop = [block, count = dropped_](const void*) {
    block->dropped.store(true, std::memory_order_release);
    count->fetch_add(1, std::memory_order_relaxed);
  };
  const Buffer memory{static_cast<std::byte*>(made), bytes, {MemoryKind::Device, device_}};
  return {memory, std::shared_ptr<const void>(made, drop)};
}

std::shared_ptr<Errand> KnownMemory::attaching(const Region& region, bool as_window) {
  const auto block = std::ranges::find(blocks_, static_cast<void*>(region.memory.data),
                                       [](const std::shared_ptr<KnownBlock>& b) { return b->data; });
  return std::make_shared<AttachErrand>(*block, region.memory.bytes, as_window);
}

std::vector<std::shared_ptr<const void>> KnownMemory::take_all() {
  std::vector<std::shared_ptr<const void>> all(blocks_.begin(), blocks_.end());
  blocks_.clear();
  dropped_ = std::make_shared<std::atomic<int>>(0);
  return all;
}

Result KnownMemory::forget(Comm comm, bool as_window, bool everything) {
  Result worst = Result::Success;
  const CurrentDevice current(runtime_, device_);
  std::erase_if(blocks_, [&](const std::shared_ptr<KnownBlock>& block) {
    const bool dropped = block->dropped.load(std::memory_order_acquire);
    if (!dropped && !everything) return false;
    if (dropped) dropped_->fetch_sub(1, std::memory_order_relaxed);
    void* handle = std::exchange(block->handle, nullptr);
    if (handle == nullptr) return true;
    const Result result = as_window ? api_.comm_window_deregister(comm, handle) : api_.comm_deregister(comm, handle);
    if (worst == Result::Success) worst = result;
    return true;
  });
  return worst;
}

}  // namespace sinew::nccl
