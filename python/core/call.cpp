#include "call.hpp"

#include <algorithm>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "../sinew/csrc/innermost_line.hpp"
#include "errors.hpp"
#include "library_folder.hpp"
#include "python.hpp"

namespace sinew::python {

Call::~Call() {
  if (!members_ || !in_flight_) return;
  Session& session = members_->session();
  if (!session.is_open() || session.in_child()) return;
  if (work_.done() && session.may_free()) {
    session.outside([this] { end(); });
  } else {
    session.keep(std::move(*this));
  }
}

const char* Call::use_label(nb::handle text) {
  if (text.is_none()) [[likely]]
    return nullptr;
  if (!PyUnicode_Check(text.ptr())) reject(name_, "label is no str");
  const char* const bytes = PyUnicode_AsUTF8(text.ptr());
  if (bytes == nullptr) reject(name_, fmt::format("label is no text: {}", take_error_text()));
  label_ = nb::borrow(text);
  return bytes;
}

const char* Call::use_line(nb::handle text) {
  const char* const label = use_label(text);
  const auto line = innermost_line(PyEval_GetFrame(), is_library);
  if (!line) return label;
  const std::string both = label == nullptr ? *line : fmt::format("{}, {}", *line, label);
  return use_label(nb::str(both.c_str()));
}

Status wait_for(Call& call, Deadline until, bool began_here) {
  Session& session = call.session();
  int pauses = 0;
  while (true) {
    const auto now = Clock::now();
    const Deadline pause(until.given() ? std::min(now + kSignalPause, until.at()) : now + kSignalPause);
    Status status;
    {
      const nb::gil_scoped_release unlocked;
      status = call.work().wait(pause);
    }
    if (status.code() != Code::Pending || until.passed()) return status;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (++pauses != kPausesBeforeSlow) continue;
    if (auto line = innermost_line(PyEval_GetFrame(), is_library)) {
      session.outside([&] { call.work().name_site(began_here ? *line : "the wait in " + *line); });
    }
  }
}

void require(Call& call, const Status& status) {
  if (call.reduction()) {
    const std::exception_ptr thrown = call.reduction()->take_exception();
    if (thrown) {
      std::string why = "the reduction of this rank threw an exception";
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& e) {
        why = fmt::format("the reduction of {} threw: {}", call.name(), e.what());
      }
      call.session().outside([&] { call.members().communicator().abort(why); });
      std::rethrow_exception(thrown);
    }
  }
  status.require();
}

}  // namespace sinew::python
