#pragma once

#include <functional>
#include <memory>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Runs functions of the user's on threads that do nothing else. A thread is always free: if all threads are inside a
/// function, the next function gets a new thread. So a function may wait for what a later function does. A thread that
/// has had nothing to do for a second ends, except the last one.
/// Thread: any.
class SINEW_API Continuations {
 public:
  /// Errors: System if the process may have no more threads.
  Continuations();
  Continuations(const Continuations&) = delete;
  Continuations& operator=(const Continuations&) = delete;
  /// Waits until all functions have returned. If one of them calls this, it does not wait for itself.
  ~Continuations();

  /// Functions begin in the order of these calls. A function must not throw. If the process may have no more threads,
  /// the log says so, and a function waits until another one returns.
  void post(std::function<void()> run);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sinew
