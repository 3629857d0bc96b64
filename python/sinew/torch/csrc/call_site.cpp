#include <torch/csrc/python_headers.h>
// Python's header comes first.
#include <pybind11/pybind11.h>

#include <set>
#include <string>
#include <utility>

#include <sinew/core/base/process_lock.hpp>

#include "../../csrc/innermost_line.hpp"
#include "call_site.hpp"

namespace sinew::torch_backend::call_site {
namespace {

namespace py = pybind11;

std::string& library_folder() {
  static auto* const kFolder = new std::string;
  return *kFolder;
}

/// torch wraps its functions by decorators of contextlib, and the deprecated ones by those of typing_extensions.
bool is_library(const std::string& file) {
  return (!library_folder().empty() && file.starts_with(library_folder())) || file.ends_with("/contextlib.py") ||
         file.ends_with("/typing_extensions.py");
}

const char* kept(std::string text) {
  static auto* const kTexts = new std::set<std::string>;
  const ProcessLock lock(OfProcess::Bindings);
  return kTexts->insert(std::move(text)).first->c_str();
}

}  // namespace

std::atomic<bool> wanted_at_each_call = false;

void set_library_folder(std::string folder) { library_folder() = std::move(folder); }

const char* find() {
  if (Py_IsInitialized() == 0) return nullptr;
  const py::gil_scoped_acquire lock;
  auto line = python::innermost_line(PyEval_GetFrame(), is_library);
  return line ? kept(std::move(*line)) : nullptr;
}

std::optional<std::string> of_thread(unsigned long thread) {
  if (Py_IsInitialized() == 0) return std::nullopt;
  const py::gil_scoped_acquire lock;
  const py::dict frames = py::module_::import("sys").attr("_current_frames")();
  const py::int_ number(thread);
  if (!frames.contains(number)) return std::nullopt;
  const py::object frame = frames[number];
  return python::innermost_line(reinterpret_cast<PyFrameObject*>(frame.ptr()), is_library);
}

}  // namespace sinew::torch_backend::call_site
