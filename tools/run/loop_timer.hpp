#pragma once

#include <functional>

#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>

#include "event_loop.hpp"

namespace sinew::run {

/// Calls back from the loop, once, after a while.
class LoopTimer {
 public:
  explicit LoopTimer(EventLoop& loop) : loop_(loop) {}
  ~LoopTimer() { stop(); }
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  /// Instead of what it was waiting for. `then` may start it again. Errors: Error{System}.
  void start(Duration wait, std::function<void()> then);
  void stop();

 private:
  EventLoop& loop_;
  FileDescriptor timer_;  // none: stopped
};

}  // namespace sinew::run
