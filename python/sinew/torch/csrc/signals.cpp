#include <torch/csrc/python_headers.h>
// Python's header comes first.
#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "signals.hpp"

namespace sinew::torch_backend {

void run_signal_handlers() {
  // The thread that started the process, or that forked it off, is also the one that Python calls its main thread.
  if (::syscall(SYS_gettid) != ::getpid() || Py_IsInitialized() == 0) return;
  const pybind11::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

WithoutPythonLock::WithoutPythonLock()
    : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}

WithoutPythonLock::~WithoutPythonLock() {
  if (state_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

}  // namespace sinew::torch_backend
