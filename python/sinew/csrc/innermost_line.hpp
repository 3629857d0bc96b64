#pragma once

#include <Python.h>

#include <optional>
#include <string>

namespace sinew::python {

/// The innermost line of Python in `frame` and its callers that `is_library(file name)` does not hold for, such as
/// "train.py:30". None: there is none. The extension of PyTorch and that of the package both use it.
/// Thread: Python's lock is held, and no exception is set.
template <class IsLibrary>
std::optional<std::string> innermost_line(PyFrameObject* frame, IsLibrary&& is_library) {
  std::optional<std::string> line;
  Py_XINCREF(frame);
  while (frame != nullptr && !line) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    PyObject* const name = PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_filename");
    const char* const text = name != nullptr ? PyUnicode_AsUTF8(name) : nullptr;
    if (text == nullptr) {
      PyErr_Clear();
    } else if (const std::string file = text; !is_library(file)) {
      const std::size_t slash = file.rfind('/');
      line =
          file.substr(slash == std::string::npos ? 0 : slash + 1) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    }
    Py_XDECREF(name);
    Py_DECREF(code);
    PyFrameObject* const caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  return line;
}

}  // namespace sinew::python
