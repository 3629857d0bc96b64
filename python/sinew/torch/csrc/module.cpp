#include <torch/csrc/utils/pybind.h>
// torch's pybind11 comes first: it declares the holders.
#include <pybind11/chrono.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include <sinew/core/base/version.hpp>

#include "backend.hpp"
#include "call_site.hpp"
#include "group.hpp"
#include "slow_wait.hpp"
#include "worlds.hpp"

#ifndef TORCH_EXTENSION_NAME
#error "TORCH_EXTENSION_NAME is the name of the module, such as _C_2_15: the build gives it"
#endif

namespace sinew::torch_backend {
namespace {

namespace py = pybind11;

/// Makes a process group; torch calls it as a creator with extended_api=True. A program that uses several backends
/// gives its `group_options` to all of them, so options of another type are for another backend.
/// `device`: as WorldOptions::device.
c10::intrusive_ptr<c10d::Backend> create(const c10d::DistributedBackendOptions& asked, const py::object& group_options,
                                         int device) {
  auto options = c10::make_intrusive<SinewOptions>();
  if (py::isinstance<SinewOptions>(group_options))
    options = c10::make_intrusive<SinewOptions>(group_options.cast<const SinewOptions&>());
  if (options->timeout == kBackendDefaultTimeout)
    options->timeout = std::chrono::milliseconds(std::llround(asked.timeout.count() * 1000.0));
  options->group_name = asked.group_id;
  options->global_ranks_in_group.assign(asked.global_ranks_in_group.begin(), asked.global_ranks_in_group.end());
  const Membership membership{
      asked.store,   asked.global_ranks_in_group, asked.group_rank, asked.group_size, options->timeout, device,
      asked.group_id};
  const py::gil_scoped_release unlocked;
  return c10::make_intrusive<SinewBackend>(membership, std::move(options));
}

/// The end of Python comes before the end of the libraries that the Worlds use.
void end_before_python() {
  py::module_::import("atexit").attr("register")(py::cpp_function(
      [] {
        leave_all_groups();
        SlowWait::end_thread();
      },
      py::call_guard<py::gil_scoped_release>()));
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0;
}

/// torch records the calls of other parties' groups in its Flight Recorder, with Python's stack, which costs 6 us for
/// each. sinew's are recorded only where the user has named the recorder's size.
void leave_out_flight_recorder() {
  if (is_set("TORCH_FR_BUFFER_SIZE") || is_set("TORCH_NCCL_TRACE_BUFFER_SIZE")) return;
  const auto c10d = py::module_::import("torch.distributed.distributed_c10d");
  const char* const kWithoutRecorder = "_FR_SELF_RECORDING_BACKENDS";  // torch 2.11 has none
  if (py::hasattr(c10d, kWithoutRecorder)) c10d.attr(kWithoutRecorder).attr("add")(kBackendName);
}

void learn_library_folder() {
  const auto file = py::module_::import("torch").attr("__file__").cast<std::string>();
  call_site::set_library_folder(file.substr(0, file.rfind('/') + 1));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::module_::import("torch.distributed");  // its types are named below
  m.attr("version") = std::string(version());
  py::class_<SinewOptions, c10d::Backend::Options, c10::intrusive_ptr<SinewOptions>>(m, "Options")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout);
  m.def("create", &create, py::arg("options"), py::arg("group_options"), py::arg("device"));
  end_before_python();
  learn_library_folder();
  leave_out_flight_recorder();
}

}  // namespace sinew::torch_backend
