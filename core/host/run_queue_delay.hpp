#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// How much a thread has been kept from its core since it began.
struct Displacement {
  double delay_s = 0;            ///< time that it was ready to run and had no core; 0 if the kernel does not count it
  std::int64_t preemptions = 0;  ///< how often the kernel took the core away from it
};

/// Reads the Displacement of the thread that made this object. Only that thread may call read().
/// Source: /proc/thread-self/schedstat and getrusage(2).
class SINEW_API RunQueueDelay {
 public:
  RunQueueDelay();
  Displacement read() const noexcept;

 private:
  FileDescriptor file_;
};

/// Did other threads keep this thread from its core for more than `share` of `elapsed_s`? A thread that wakes up also
/// waits for a core, which is nobody's fault. So the answer is yes only if the thread was preempted, too.
SINEW_API bool displaced(const Displacement& before, const Displacement& after, double elapsed_s,
                         double share) noexcept;

}  // namespace sinew
