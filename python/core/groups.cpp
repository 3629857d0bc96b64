
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "checks.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "python.hpp"
#include "signatures.hpp"

namespace sinew::python {
namespace {

/// A blocking call of a communicator that has no Work. `body` returns what Python gets, made of what sinew returned.
template <class Result>
std::shared_ptr<std::optional<Result>> call_aside(const PyCommunicator& self, const char* name,
                                                  std::function<Result(Communicator&)> body) {
  auto result = std::make_shared<std::optional<Result>>();
  const std::shared_ptr<Members> members = self.members();
  Turn turn = members->enter(name);
  members->session().sweep();
  run_aside(members->shared_session(), std::move(turn),
            [result, communicator = &members->communicator(), body = std::move(body)] {
              result->emplace(body(*communicator));
            });
  return result;
}

std::unique_ptr<PyCommunicator> split(const PyCommunicator& self, int color, int key, const std::string& name,
                                      nb::handle timeout) {
  const Deadline until = deadline_after(timeout.is_none() ? self.members()->session().timeout()
                                                          : duration_of("split", "timeout", timeout));
  auto made = call_aside<Communicator>(self, "split", [=](Communicator& c) {
    return c.split(color, key, CallOptions{.deadline = until, .where = {}}, name);
  });
  return std::make_unique<PyCommunicator>(
      std::make_shared<Members>(self.members()->shared_session(), std::move(**made)));
}

std::unique_ptr<PyMemory> allocate(const PyCommunicator& self, std::size_t bytes, nb::handle timeout) {
  const Deadline until = deadline_after(timeout.is_none() ? self.members()->session().timeout()
                                                          : duration_of("allocate", "timeout", timeout));
  auto made = call_aside<Memory>(self, "allocate", [=](Communicator& c) {
    return c.allocate(bytes, CallOptions{.deadline = until, .where = {}});
  });
  return std::make_unique<PyMemory>(self.members()->shared_session(), std::move(**made), true);
}

CommunicatorStats stats(const PyCommunicator& self) {
  const Deadline until = deadline_after(self.members()->session().timeout());
  auto made = call_aside<CommunicatorStats>(
      self, "stats", [=](Communicator& c) { return c.stats(CallOptions{.deadline = until, .where = {}}); });
  return std::move(**made);
}

template <class Use>
auto with(const PyCommunicator& self, const char* name, Use&& use) {
  const Turn turn = self.members()->enter(name);
  return self.members()->session().outside([&] { return use(self.members()->communicator()); });
}

void set_stream_priority(const PyCommunicator& self, nb::handle priority) {
  const char* const name = "set_stream_priority";
  const std::string_view text = text_of(name, "priority", priority);
  if (text != "normal" && text != "high") reject(name, fmt::format("priority is '{}', expected normal or high", text));
  const StreamPriority chosen = text == "high" ? StreamPriority::High : StreamPriority::Normal;
  with(self, name, [&](Communicator& c) { c.set_stream_priority(chosen); });
}

}  // namespace

void bind_groups(nb::module_& m, CommunicatorClass& c) {
  nb::class_<CallStats>(m, "CallStats", "Statistics of the calls of one collective, dtype and size. Times are seconds.")
      .def_prop_ro("collective", [](const CallStats& s) { return std::string(name_of(s.collective)); })
      .def_prop_ro("dtype", [](const CallStats& s) { return std::string(numpy_name(s.dtype)); })
      .def_ro("bytes", &CallStats::bytes)
      .def_ro("algorithm", &CallStats::algorithm)
      .def_ro("transport", &CallStats::transport)
      .def_ro("calls", &CallStats::calls)
      .def_ro("failed", &CallStats::failed)
      .def_ro("judged", &CallStats::judged)
      .def_ro("total", &CallStats::total)
      .def_ro("time_median", &CallStats::time_median)
      .def_ro("busbw", &CallStats::busbw, "Bytes per second.")
      .def_ro("skew_median", &CallStats::skew_median)
      .def_ro("skew_worst", &CallStats::skew_worst)
      .def_ro("last_rank", &CallStats::last_rank)
      .def_ro("last_calls", &CallStats::last_calls)
      .def_ro("predicted", &CallStats::predicted);
  nb::class_<CommunicatorStats>(m, "CommunicatorStats", "Statistics of a communicator since it was made.")
      .def_ro("calls", &CommunicatorStats::calls)
      .def_ro("clock_error", &CommunicatorStats::clock_error, "Seconds.")
      .def("to_text", [](const CommunicatorStats& s) { return to_text(s.calls); });
  c.def_prop_ro(
       "rank", [](const PyCommunicator& self) { return self.members()->rank(); }, "This rank's number here.")
      .def_prop_ro(
          "size", [](const PyCommunicator& self) { return self.members()->size(); }, "The number of ranks.")
      .def_prop_ro(
          "name",
          [](const PyCommunicator& self) { return with(self, "name", [](Communicator& x) { return x.name(); }); },
          "Name and size as errors show them, such as \"world of 8\".")
      .def(
          "rank_text",
          [](const PyCommunicator& self, int rank) {
            return with(self, "rank_text", [&](Communicator& x) { return x.rank_text(rank); });
          },
          nb::arg("rank"), "Names a rank of this communicator as errors do, such as \"rank 5 (1 in tp)\".")
      .def(
          "world_rank",
          [](const PyCommunicator& self, int rank) {
            if (rank < 0 || rank >= self.members()->size())
              reject("world_rank", fmt::format("rank is {}, expected 0 to {}", rank, self.members()->size() - 1));
            return with(self, "world_rank", [&](Communicator& x) { return x.world_rank(rank); });
          },
          nb::arg("rank"), "Converts a rank of this communicator to its rank in the World.")
      .def(
          "split", &split, nb::arg("color"), nb::arg("key") = 0, nb::arg("name") = "", nb::kw_only(),
          nb::arg("timeout") = nb::none(),
          nb::sig(
              "def split(self, color: int, key: int = 0, name: str = '', *, timeout: float | datetime.timedelta | None "
              "= None) -> Communicator"),
          R"(Makes a communicator of the ranks with the same `color`, in the order of `key`, then of rank.

A rank whose color is below 0 gets an empty communicator of size 0. All ranks call it.)")
      .def("allocate", &allocate, nb::arg("nbytes"), nb::kw_only(), nb::arg("timeout") = nb::none(),
           nb::sig("def allocate(self, nbytes: int, *, timeout: float | datetime.timedelta | None = None) -> Memory"),
           "Allocates device memory on every rank, registered for calls of this communicator. All ranks call it.")
      .def("set_stream_priority", &set_stream_priority, nb::arg("priority"),
           nb::sig("def set_stream_priority(self, priority: str) -> None"),
           R"(Chooses the priority of the streams on which this communicator's calls run: "normal" or "high".

Must be called before the first call on device memory. Local: ranks may choose differently.)")
      .def(
          "abort",
          [](const PyCommunicator& self, const std::string& reason) {
            with(self, "abort", [&](Communicator& x) { x.abort(reason); });
          },
          nb::arg("reason"), "Ends all calls of this communicator on all its ranks, with Aborted and `reason`.")
      .def(
          "abort_here",
          [](const PyCommunicator& self, const std::string& reason) {
            with(self, "abort_here", [&](Communicator& x) { x.abort_here(reason); });
          },
          nb::arg("reason"), "Ends all calls of this rank alone, with Aborted and `reason`.")
      .def(
          "verdict",
          [](const PyCommunicator& self) { return with(self, "verdict", [](Communicator& x) { return x.verdict(); }); },
          "Says why the oldest call that waits has not ended. Empty: no call waits.")
      .def("stats", &stats,
           "How long the calls so far took. All ranks call it. Needs SINEW_STATS=1 or Config.time_calls.")
      .def_prop_ro(
          "memory_bytes",
          [](const PyCommunicator& self) {
            return with(self, "memory_bytes", [](Communicator& x) { return x.memory_bytes(); });
          },
          "The bytes of buffers that this rank holds for the communicator.")
      .def_prop_ro(
          "objects", [](nb::handle self) { return nb::module_::import_("sinew._objects").attr("Objects")(self); },
          nb::sig("def objects(self) -> Objects"), "The calls that take objects of Python, which are pickled.")
      .def(
          "close", [](const PyCommunicator& self) { self.members()->close(); },
          "Waits for the calls in flight and ends the communicator on this rank. That of a World ends with the World.")
      .def("__repr__",
           [](const PyCommunicator& self) {
             const Members& members = *self.members();
             if (members.size() == 0) return std::string("<sinew.Communicator: empty>");
             const bool is_closed = members.is_closed() || !members.session().is_open();
             return fmt::format("<sinew.Communicator: rank {} of {}{}>", members.rank(), members.size(),
                                is_closed ? ", closed" : "");
           })
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Communicator"))
      .def(
          "__exit__",
          [](const PyCommunicator& self, nb::handle type, nb::handle value, nb::handle) {
            if (ends_others(type, value) && !self.members()->is_closed() && self.members()->session().is_open()) {
              const std::string why = text_of_exception(type, value);
              with(self, "__exit__", [&](Communicator& x) {
                if (x.size() > 0) x.abort(why);
              });
            }
            self.members()->close();
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: "
                  "types.TracebackType | None) -> None"));
}

}  // namespace sinew::python
