#include "work.hpp"

#include <string>
#include <utility>

#include "errors.hpp"
#include "options.hpp"
#include "python.hpp"

namespace sinew::python {
namespace {

/// A function of Python that a thread of sinew calls, and destroys.
class Callback {
 public:
  explicit Callback(nb::callable run) : run_(std::move(run)) {}
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  ~Callback() {
    if (Py_IsInitialized() == 0) {
      static_cast<void>(run_.release());
      return;
    }
    const nb::gil_scoped_acquire lock;
    run_.reset();
  }
  void operator()(const Status& status) noexcept {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire lock;
    try {
      run_(status.ok() ? nb::object(nb::none()) : exception_of(status));
    } catch (nb::python_error& e) {
      e.restore();
      PyErr_WriteUnraisable(run_.ptr());
    }
  }

 private:
  nb::object run_;
};

class Used {
 public:
  Used(bool& used, const char* call) : used_(used) {
    if (used) reject(call, "another thread uses this Work");
    used = true;
  }
  ~Used() { used_ = false; }
  Used(const Used&) = delete;
  Used& operator=(const Used&) = delete;

 private:
  bool& used_;
};

}  // namespace

PyWork::PyWork(std::shared_ptr<Call> call) : single_(call->session().is_single()), call_(std::move(call)) {
  call_->session().add_started(call_);
}

PyWork::~PyWork() { forget(); }

void PyWork::forget() {
  if (!call_) return;
  const std::shared_ptr<Session> session = call_->members().shared_session();
  session->remove_started(*call_);
  call_.reset();
}

bool PyWork::ended_with_world() {
  if (call_->session().is_open()) return false;
  settle(call_->work().done() ? call_->work().wait(Deadline(Clock::time_point{}))
                              : Status(Code::Aborted, "its World has ended"));
  return true;
}

bool PyWork::done() { return !call_ || call_->work().done(); }

bool PyWork::test() {
  if (!call_ || ended_with_world()) return true;
  const Used used(used_, call_->name());
  const Turn turn(call_->session(), call_->name());
  if (!call_->session().outside([this] { return call_->work().test(); })) return false;
  settle(call_->work().wait(Deadline(Clock::time_point{})));
  return true;
}

bool PyWork::wait(nb::handle timeout) {
  if (call_ && !ended_with_world()) {
    const std::shared_ptr<Session> session = call_->members().shared_session();
    const Deadline until =
        timeout.is_none() ? Deadline::never() : deadline_after(duration_of(call_->name(), "timeout", timeout));
    const Used used(used_, call_->name());
    const Turn turn(*session, call_->name());
    Status status;
    if (single_) {
      status = call_->work().wait(Deadline(Clock::time_point{}));
    } else {
      const nb::gil_scoped_release unlocked;
      status = call_->work().wait(
          until.given() && until.at() < Clock::now() + kSignalPause ? until : Deadline::after(kSignalPause));
    }
    if (status.code() == Code::Pending && !until.passed()) status = wait_for(*call_, until, false);
    if (status.code() == Code::Pending) return false;
    settle(status);
  }
  raise();
  return true;
}

void PyWork::settle(const Status& status) {
  status_ = status;
  source_ = call_->work().source();
  if (call_->reduction() && call_->session().is_open()) {
    try {
      require(*call_, Status());
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  if (call_->session().is_open()) call_->session().outside([this] { call_->end(); });
  forget();
}

void PyWork::raise() {
  if (thrown_) std::rethrow_exception(thrown_);
  status_.require();
}

int PyWork::source() { return call_ && call_->work().done() ? call_->work().source() : source_; }

void PyWork::then(nb::callable run) {
  if (!call_ || ended_with_world()) {
    Callback callback(std::move(run));
    return callback(status_);
  }
  const Turn turn(call_->session(), "Work.then");
  auto callback = std::make_shared<Callback>(std::move(run));
  call_->session().outside([&] { call_->work().then([callback](const Status& status) { (*callback)(status); }); });
}

void PyWork::order(nb::handle stream, int device) {
  if (!call_ || ended_with_world()) return raise();
  void* const handle = PyLong_Check(stream.ptr()) ? PyLong_AsVoidPtr(stream.ptr()) : nullptr;
  if (PyErr_Occurred() != nullptr || !PyLong_Check(stream.ptr()) || device < 0) {
    PyErr_Clear();
    reject("Work.order", "expected a CUDA stream as a whole number, and the number of its device");
  }
  const Used used(used_, call_->name());
  const Turn turn(call_->session(), call_->name());
  while (true) {
    Status status;
    {
      const nb::gil_scoped_release unlocked;
      status = call_->work().order({handle, device}, Deadline::after(kSignalPause));
    }
    if (status.code() != Code::Pending) return status.require();
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void bind_work(nb::module_& m) {
  nb::class_<PyWork>(m, "Work", R"(A call in flight. The arrays belong to the call until it has ended.

A Work may be awaited. A Work that is dropped does not cancel its call. The arrays of that call live on until it ends.)")
      .def_prop_ro("done", &PyWork::done,
                   "True if the call has ended. It makes no progress: in a World for one thread, use test() in loops.")
      .def("test", &PyWork::test, "Makes progress without waiting. True if the call has ended.")
      .def("wait", &PyWork::wait, nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: float | datetime.timedelta | None = None) -> bool"),
           R"(Waits for the end of the call and raises its failure.

False if `timeout`, in seconds, passes first. The call goes on, and wait() may be called again.)")
      .def_prop_ro("source", &PyWork::source,
                   "The rank whose message this receive took. -1: the call is no receive, or it has not ended.")
      .def("then", &PyWork::then, nb::arg("run"),
           nb::sig("def then(self, run: collections.abc.Callable[[Error | None], object]) -> None"),
           R"(Calls `run` once, with the failure of the call, or None.

A thread of the World calls it when the call has ended. If it has ended already, this thread calls it now.)")
      .def("order", &PyWork::order, nb::arg("stream"), nb::arg("device"),
           nb::sig("def order(self, stream: int, device: int) -> None"),
           "Makes a CUDA stream wait for the result of the call, without a wait of the host.")
      .def_prop_ro("ends_by_itself", &PyWork::ends_by_itself,
                   "True if a thread of the World makes progress: it was made with threads=\"multiple\".")
      .def(
          "__await__",
          [](nb::handle self) {
            return nb::module_::import_("sinew._awaiting").attr("ended")(self).attr("__await__")();
          },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, None]"));
}

}  // namespace sinew::python
