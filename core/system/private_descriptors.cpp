#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

#include <sinew/core/system/private_descriptors.hpp>

namespace sinew {
namespace {

constexpr std::size_t kWordBits = 64;
constexpr std::size_t kBlockDescriptors = std::size_t{1} << 13;
constexpr std::size_t kMostBlocks = std::size_t{1} << 12;  // 2^25 descriptors; the kernel's default limit is 2^20

/// One bit per descriptor.
struct DescriptorBlock {
  std::array<std::atomic<std::uint64_t>, kBlockDescriptors / kWordBits> words{};
};

constinit DescriptorBlock first_block;
constinit std::array<std::atomic<DescriptorBlock*>, kMostBlocks> descriptor_blocks{&first_block};

/// Blocks are made once and never freed, as other threads may look at them.
DescriptorBlock* block_of(std::size_t descriptor, bool make) noexcept {
  const std::size_t at = descriptor / kBlockDescriptors;
  if (at >= kMostBlocks) return nullptr;
  DescriptorBlock* block = descriptor_blocks[at].load(std::memory_order_acquire);
  if (block != nullptr || !make) return block;
  auto* fresh = new (std::nothrow) DescriptorBlock;
  if (fresh != nullptr && !descriptor_blocks[at].compare_exchange_strong(block, fresh)) delete fresh;
  return block != nullptr ? block : fresh;
}

std::atomic<std::uint64_t>* word_of(int descriptor, bool make) noexcept {
  if (descriptor < 0) return nullptr;
  const auto number = static_cast<std::size_t>(descriptor);
  DescriptorBlock* block = block_of(number, make);
  return block == nullptr ? nullptr : &block->words[number % kBlockDescriptors / kWordBits];
}

std::uint64_t bit_of(int descriptor) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(descriptor) % kWordBits;
}

/// In the child of a fork, which has this thread only. Calls nothing but system calls.
void drop_private_descriptors() noexcept {
  const int error = errno;
  const int idle = ::epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t b = 0; b < kMostBlocks; ++b) {
    DescriptorBlock* block = descriptor_blocks[b].load(std::memory_order_relaxed);
    if (block == nullptr) continue;
    for (std::size_t w = 0; w < block->words.size(); ++w) {
      if (block->words[w].load(std::memory_order_relaxed) == 0) continue;  // its page stays the parent's, too
      for (std::uint64_t left = block->words[w].exchange(0, std::memory_order_relaxed); left != 0; left &= left - 1) {
        const auto descriptor =
            static_cast<int>(b * kBlockDescriptors + w * kWordBits + static_cast<std::size_t>(std::countr_zero(left)));
        // Closed, where the process may open no more: then the number is free for others.
        if (idle < 0 || ::dup3(idle, descriptor, O_CLOEXEC) < 0) ::close(descriptor);
      }
    }
  }
  if (idle >= 0) ::close(idle);
  errno = error;
}

[[maybe_unused]] const int drops_in_children = ::pthread_atfork(nullptr, nullptr, drop_private_descriptors);

}  // namespace

void PrivateDescriptors::add(int descriptor) noexcept {
  if (auto* word = word_of(descriptor, true)) word->fetch_or(bit_of(descriptor), std::memory_order_relaxed);
}

void PrivateDescriptors::remove(int descriptor) noexcept {
  if (auto* word = word_of(descriptor, false)) word->fetch_and(~bit_of(descriptor), std::memory_order_relaxed);
}

}  // namespace sinew
