#include <sys/mman.h>

#include <fmt/format.h>

#include <sinew/collectives/transfers/landing.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

Landing::Landing(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_errno(fmt::format("a receive of {} bytes of device memory: mmap", bytes));
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

void Landing::reset() noexcept {
  if (memory_.data != nullptr) ::munmap(memory_.data, memory_.bytes);
  memory_ = {};
}

}  // namespace sinew
