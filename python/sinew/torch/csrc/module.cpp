#include <torch/extension.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <sinew/core/version.hpp>

namespace sinew::torch_backend {
namespace {

class Done final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

/// Stands in for the backend until it is there: it has a name, and a barrier that ends at once.
class Backend final : public c10d::Backend {
 public:
  using c10d::Backend::Backend;
  const std::string getBackendName() const override { return "sinew"; }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& /*options*/) override {
    return c10::make_intrusive<Done>();
  }
};

c10::intrusive_ptr<c10d::Backend> create(const c10d::DistributedBackendOptions& options, const py::object& /*group*/) {
  return c10::make_intrusive<Backend>(options.group_rank, options.group_size);
}

}  // namespace
}  // namespace sinew::torch_backend

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("create", &sinew::torch_backend::create);
  module.attr("version") = sinew::version();
}
