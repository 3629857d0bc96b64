#pragma once

#include <cstddef>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Bytes that two writers must stay apart so that neither slows the other (adjacent-line prefetch: two lines).
inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kFalseSharing = 128;

/// A hint in a spin loop. The one file with instructions of a particular CPU.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// A hint that the line will be read here soon. Never faults.
inline void prefetch_line(const void* at) noexcept { __builtin_prefetch(at, 0, 3); }

/// A hint that the line will be written here soon: it is taken from the core that has it, before a store waits for
/// that. Never faults.
inline void prefetch_line_to_write(void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));  // compilers write it for newer processors only
#else
  __builtin_prefetch(at, 1, 3);
#endif
}

/// A hint that other cores will read these lines next. The processor moves the lines to the cache that cores share,
/// where a reader finds them sooner than in this core's own cache. A processor without the instruction does nothing.
inline void demote_lines(const void* at, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  const auto* line = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += kCacheLine) asm volatile("cldemote %0" : : "m"(line[i]));
#else
  static_cast<void>(at);
  static_cast<void>(bytes);
#endif
}

/// Copies by the processor's string instruction, which takes the lines that it fills without fetching them first: for
/// memory that another core has read last. Visible in order with what is stored after it.
inline void string_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Copies by vector instructions, however long the block is. memcpy copies a long block by the string instruction,
/// which is slow if another core has written the block.
inline void vector_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t kPiece = 4 << 10;  // not a page
  for (; bytes > kPiece; bytes -= kPiece, to += kPiece, from += kPiece) std::memcpy(to, from, kPiece);
  std::memcpy(to, from, bytes);
}

/// Copies into memory that another core has read last and will read again. From `string_from` bytes on it uses
/// string_copy.
inline void copy_for_others(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t string_from) noexcept {
  if (bytes < string_from) {
    vector_copy(to, from, bytes);
  } else {
    string_copy(to, from, bytes);
  }
}

/// Nothing after it begins before all before it has ended: for measurements of a few nanoseconds.
inline void instruction_fence() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// A sequentially consistent fence. Not std::atomic_thread_fence, which the thread sanitizer's build refuses.
inline void full_fence() noexcept { __sync_synchronize(); }

SINEW_API std::size_t page_bytes() noexcept;

/// The CPUs of this thread's affinity mask, ascending. Where nothing tells the mask, all CPUs that are online.
SINEW_API std::vector<int> affinity_cpus();

/// Cores' worth of CPU time that this process's control groups grant to their processes together. 0: there is no limit.
SINEW_API double quota_cores() noexcept;

/// Cores that several processes of one host may use between them: launchers often bind each to its own. All affinity
/// masks together, and no more than the smallest quota.
class SINEW_API CoreCount {
 public:
  /// As affinity_cpus() and quota_cores() of one of them.
  void add(std::span<const int> cpus, double quota_cores);
  /// At least 1. A fraction of a core does not count: ranks that spun on it would use up the quota.
  int cores() const noexcept;

 private:
  std::set<int> cpus_;
  double quota_ = 0;
};

/// Cores this process may use, at least 1.
SINEW_API int usable_cores();

}  // namespace sinew
