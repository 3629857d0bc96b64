#include <torch/csrc/python_headers.h>
// Python's header comes first.
#include <pybind11/pybind11.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "call_site.hpp"

namespace sinew::torch_backend::call_site {
namespace {

bool asked_by_environment() {
  const char* value = std::getenv("SINEW_PYTHON_SITES");
  return value != nullptr && std::string_view(value) == "1";
}

std::string& library_folder() {
  static auto* const kFolder = new std::string;
  return *kFolder;
}

/// torch wraps its functions by contextlib's decorators.
bool is_library(const std::string& file) {
  return (!library_folder().empty() && file.starts_with(library_folder())) || file.ends_with("/contextlib.py");
}

const char* kept(std::string text) {
  static auto* const kTexts = new std::set<std::string>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return kTexts->insert(std::move(text)).first->c_str();
}

}  // namespace

std::atomic<bool> wanted_at_each_call = asked_by_environment();

void set_library_folder(std::string folder) { library_folder() = std::move(folder); }

const char* find() {
  namespace py = pybind11;
  if (Py_IsInitialized() == 0) return nullptr;
  const py::gil_scoped_acquire lock;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    const auto file = code.attr("co_filename").cast<std::string>();
    if (!is_library(file)) {
      const std::size_t slash = file.rfind('/');
      return kept(file.substr(slash == std::string::npos ? 0 : slash + 1) + ":" +
                  std::to_string(PyFrame_GetLineNumber(raw)));
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return nullptr;
}

}  // namespace sinew::torch_backend::call_site
