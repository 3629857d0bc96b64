#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include <sinew/core/base/export.hpp>
#include <sinew/core/base/sanitizer.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {

/// Memory of this process that the other ranks of the host may read. It is one sparse memfd. This process maps it for
/// writing, and the peers map it for reading. All memory that peers read is allocated from it, and messages name it by
/// its offset. So no descriptor is sent after World::create, and SIGKILL leaves nothing behind.
/// Thread: any. With Threads::Multiple the user's thread allocates while another thread makes progress.
/// Cost:   address space until memory is used. Freed pages go back to the kernel (fallocate punch hole).
class SINEW_API SharedSegment {
 public:
  /// Every process of the host maps `ranks` such segments. Under RLIMIT_AS they take half of the limit at most.
  /// Errors: Error{System} where memfd_create or mmap is refused, with the reason.
  explicit SharedSegment(std::size_t address_space_bytes = kDefaultAddressSpace, int ranks = 1);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Zeroed memory, aligned to `alignment` (a power of two, at least a cache line). Errors: Error{System} when full.
  std::byte* allocate(std::size_t bytes, std::size_t alignment = 64);
  /// Frees memory. Does nothing in the child of a fork, since the memory is the parent's.
  void release(std::byte* memory) noexcept;

  std::uint64_t offset_of(const void* memory) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) - base_);
  }
  bool contains(const void* memory) const noexcept {
    return memory >= base_ && static_cast<const std::byte*>(memory) < base_ + bytes_;
  }
  std::byte* base() const noexcept { return base_; }
  std::size_t address_space_bytes() const noexcept { return bytes_; }
  std::size_t allocated_bytes() const noexcept;
  int descriptor() const noexcept { return memfd_.get(); }

// The thread sanitizer leaves a process 1.5 TiB of address space, and the heaps of all peers must fit there.
#if SINEW_THREAD_SANITIZER
  static constexpr std::size_t kDefaultAddressSpace = std::size_t{4} << 30;
#else
  static constexpr std::size_t kDefaultAddressSpace = std::size_t{64} << 30;
#endif

 private:
  std::size_t sum_of_allocated() const noexcept;
  [[noreturn]] void throw_full(std::size_t bytes) const;

  ForkMark fork_;
  FileDescriptor memfd_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> free_;       // offset -> bytes
  std::map<std::uint64_t, std::uint64_t> allocated_;  // offset -> bytes
};

}  // namespace sinew
