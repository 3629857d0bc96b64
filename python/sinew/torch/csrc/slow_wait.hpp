#pragma once

#include <cstdint>

#include "waits.hpp"

namespace sinew::torch_backend {

/// A wait that lasts long. While it exists, a thread of its own finds the line of Python at which the waiting thread
/// stands and names the calls by it, so that errors and sinew-info show it. That thread needs Python's lock, for which
/// it may wait long. The waiting thread never waits for it.
/// Thread:   any; made and destroyed by the thread that waits, which has Python's lock at neither moment.
/// Lifetime: `works` stay where they are.
class SlowWait {
 public:
  /// `began_here`: the thread stands at the line that made the calls, and not at one that waits for them later.
  SlowWait(WorkList& works, bool began_here);
  ~SlowWait();
  SlowWait(const SlowWait&) = delete;
  SlowWait& operator=(const SlowWait&) = delete;

  /// Ends the thread, for good. Call it before Python ends, without Python's lock.
  static void end_thread();

 private:
  std::uint64_t number_ = 0;
};

}  // namespace sinew::torch_backend
