#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// What has kept a thread from its core so far.
struct Displacement {
  double delay_s = 0;            ///< it could have run and waited for a core; 0 where the kernel does not count it
  std::int64_t preemptions = 0;  ///< times it lost the core without giving it up
};

/// Reads the displacement of the thread that makes this object. Only that thread may read it.
/// Source: /proc/thread-self/schedstat and getrusage(2).
class SINEW_API RunQueueDelay {
 public:
  RunQueueDelay();
  Displacement read() const noexcept;

 private:
  FileDescriptor file_;
};

/// Did others keep the thread from its core for more than this share of the time? Waking from sleep counts as waiting
/// for a core, too, so this is only true if somebody also took the core away.
SINEW_API bool displaced(const Displacement& before, const Displacement& after, double elapsed_s,
                         double share) noexcept;

}  // namespace sinew
