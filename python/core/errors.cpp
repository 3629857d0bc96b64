#include "errors.hpp"

#include <fmt/format.h>

#include "../sinew/csrc/unknown_lines.hpp"
#include "python.hpp"

namespace sinew::python {
namespace {

const char* class_name(Code code) {
  switch (code) {
    case Code::InvalidArgument: return "InvalidArgument";
    case Code::Unavailable: return "Unavailable";
    case Code::Truncated: return "Truncated";
    case Code::Cancelled: return "Cancelled";
    case Code::Timeout: return "Timeout";
    case Code::PeerLost: return "PeerLost";
    case Code::Mismatch: return "Mismatch";
    case Code::Aborted: return "Aborted";
    case Code::System: return "SystemFailure";
    case Code::Ok:
    case Code::Pending: break;
  }
  return "Error";
}

}  // namespace

nb::object exception_of(const Status& status) {
  const std::string message = with_hint_at_lines(status.message());
  return nb::module_::import_("sinew._errors")
      .attr(class_name(status.code()))(nb::str(message.data(), message.size()), status.rank());
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& e) {
      try {
        const nb::object exception = exception_of(Status(e.code(), e.what(), e.rank()));
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
      } catch (nb::python_error& second) {
        second.restore();
      }
    }
  });
}

void reject(std::string_view call, const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", call, why));
}

std::string take_error_text() {
  const nb::python_error error;
  return nb::cast<std::string>(nb::str(error.value()));
}

}  // namespace sinew::python
