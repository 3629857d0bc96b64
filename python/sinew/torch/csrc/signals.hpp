#pragma once

#include "../../csrc/signal_pause.hpp"

namespace sinew::torch_backend {

using python::kSignalPause;

/// Runs the handlers of signals that came meanwhile, such as SIGINT. Python runs them on its main thread alone, so this
/// does nothing on other threads. Takes Python's lock; the caller must hold no lock that a handler may want.
/// Errors: the exception of the handler, such as KeyboardInterrupt.
void run_signal_handlers();

/// Gives Python's lock away until the end of the scope if this thread has it.
class WithoutPythonLock {
 public:
  WithoutPythonLock();
  ~WithoutPythonLock();
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  void* state_;
};

}  // namespace sinew::torch_backend
