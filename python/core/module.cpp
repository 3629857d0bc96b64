#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/base/version.hpp>
#include <sinew/core/log.hpp>

#include "communicator.hpp"
#include "errors.hpp"
#include "library_folder.hpp"
#include "memory.hpp"
#include "python.hpp"
#include "session.hpp"
#include "work.hpp"
#include "world.hpp"

namespace sinew::python {
namespace {

void set_log_level(const std::string& name) {
  constexpr std::array<std::string_view, 6> kNames{"trace", "debug", "info", "warning", "error", "off"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end())
    reject("set_log_level", fmt::format("level is '{}', expected trace, debug, info, warning, error or off", name));
  log::set_level(static_cast<log::Level>(found - kNames.begin()));
}

/// Threads of a World take Python's lock by PyGILState_Ensure(), which knows the main interpreter only. A thread that
/// has the lock for another interpreter would wait for itself there.
/// Errors: ImportError in another interpreter.
void require_main_interpreter() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw nanobind::import_error("sinew: this is a subinterpreter, expected the main interpreter of the process");
}

}  // namespace
}  // namespace sinew::python

NB_MODULE(_core, m) {
  using namespace sinew::python;
  require_main_interpreter();
  nanobind::set_leak_warnings(false);  // a World that the program still has at its end is no leak
  m.doc() = "The extension of sinew. Programs use the package sinew.";
  m.def(
      "library_version", [] { return std::string(sinew::version()); }, "The version of the libraries that are loaded.");
  m.def("set_log_level", &set_log_level, nanobind::arg("level"),
        "Chooses the log lines of sinew in this process: trace, debug, info, warning, error or off. SINEW_LOG sets it, "
        "too.");
  translate_errors();
  bind_memory(m);
  bind_work(m);
  bind_facts(m);
  CommunicatorClass communicator(m, "Communicator", R"(A group of ranks that communicate.

All ranks make the same calls in the same order. Methods return when the call has ended. Those that begin with start_
return a Work at once. Arrays are NumPy arrays, or other objects with the buffer protocol or DLPack. They are not copied.)");
  bind_groups(m, communicator);
  bind_collectives(communicator);
  bind_v_forms(communicator);
  bind_messages(m, communicator);
  bind_plans(m, communicator);
  bind_world(m);
  const auto file = nanobind::cast<std::string>(nanobind::module_::import_("sinew").attr("__file__"));
  set_library_folder(file.substr(0, file.rfind('/') + 1));
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&end_all_before_exit));
}
