#include <torch/csrc/utils/pybind.h>
// torch's pybind11 comes first: it declares the holders.
#include <pybind11/chrono.h>

#include <chrono>
#include <cmath>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include <sinew/core/version.hpp>

#include "backend.hpp"
#include "call_site.hpp"
#include "group.hpp"
#include "worlds.hpp"

#ifndef SINEW_TORCH_MODULE
#error "SINEW_TORCH_MODULE is the name of the module, such as _C_2_15: the build gives it"
#endif

namespace sinew::torch_backend {
namespace {

namespace py = pybind11;

/// Makes a process group; torch calls it as a creator with extended_api=True. `given` may be null.
c10::intrusive_ptr<c10d::Backend> create(const c10d::DistributedBackendOptions& asked,
                                         const c10::intrusive_ptr<SinewOptions>& given) {
  auto options = given ? c10::make_intrusive<SinewOptions>(*given) : c10::make_intrusive<SinewOptions>();
  if (!given || given->timeout == kBackendDefaultTimeout)
    options->timeout = std::chrono::milliseconds(std::llround(asked.timeout.count() * 1000.0));
  options->group_name = asked.group_id;
  options->global_ranks_in_group.assign(asked.global_ranks_in_group.begin(), asked.global_ranks_in_group.end());
  const Membership membership{
      asked.store, asked.global_ranks_in_group, asked.group_rank, asked.group_size, options->timeout, asked.group_id};
  return c10::make_intrusive<SinewBackend>(membership, std::move(options));
}

/// The end of Python comes before the end of the libraries that the Worlds use.
void end_before_python() {
  py::module_::import("atexit").attr("register")(
      py::cpp_function([] { leave_all_groups(); }, py::call_guard<py::gil_scoped_release>()));
}

void learn_library_folder() {
  const auto file = py::module_::import("torch").attr("__file__").cast<std::string>();
  call_site::set_library_folder(file.substr(0, file.rfind('/') + 1));
}

}  // namespace

PYBIND11_MODULE(SINEW_TORCH_MODULE, m) {
  py::module_::import("torch.distributed");  // its types are named below
  m.attr("version") = std::string(version());
  py::class_<SinewOptions, c10d::Backend::Options, c10::intrusive_ptr<SinewOptions>>(m, "Options")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout);
  m.def("create", &create, py::arg("options"), py::arg("pg_options").none(true) = nullptr,
        py::call_guard<py::gil_scoped_release>());
  end_before_python();
  learn_library_folder();
}

}  // namespace sinew::torch_backend
