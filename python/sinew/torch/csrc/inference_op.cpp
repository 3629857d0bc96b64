#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "backend.hpp"
#include "errors.hpp"
#include "tensors.hpp"

// torch.ops.sinew.all_reduce: the sum over a process group as a function, for inference. It costs the dispatcher and
// the call of sinew, and torch.compile takes it as it stands: the Meta kernel tells the result's shape.

namespace sinew::torch_backend {
namespace {

constexpr const char* kFunction = "torch.ops.sinew.all_reduce";

c10d::ReduceOp op_of(std::string_view name) {
  if (name == "sum") return c10d::ReduceOp::SUM;
  if (name == "avg") return c10d::ReduceOp::AVG;
  if (name == "product") return c10d::ReduceOp::PRODUCT;
  if (name == "min") return c10d::ReduceOp::MIN;
  if (name == "max") return c10d::ReduceOp::MAX;
  if (name == "band") return c10d::ReduceOp::BAND;
  if (name == "bor") return c10d::ReduceOp::BOR;
  if (name == "bxor") return c10d::ReduceOp::BXOR;
  reject(kFunction,
         c10::str("reduce_op is \"", name,
                  "\", expected \"sum\", \"avg\", \"product\", \"min\", \"max\", \"band\", \"bor\" or \"bxor\""));
}

Group& group_of(const std::string& group_name, c10::DeviceType device) {
  const auto backend = c10d::resolve_process_group(group_name)->getBackend(device);
  auto* const sinew_backend = dynamic_cast<SinewBackend*>(backend.get());
  if (sinew_backend == nullptr) {
    reject(kFunction, c10::str("process group \"", group_name, "\" uses ", backend->getBackendName(), " for ",
                               c10::DeviceTypeName(device), " tensors, expected sinew"));
  }
  return sinew_backend->group();  // its process group keeps the backend alive
}

at::Tensor result_like(const at::Tensor& input) {
  return at::empty(input.sizes(), input.options().memory_format(at::MemoryFormat::Contiguous));
}

at::Tensor all_reduce(const at::Tensor& input, c10::string_view reduce_op, c10::string_view group_name) {
  require_dense(input, kFunction);
  const Reduction reduction = reduction_of(input.scalar_type(), op_of(std::string_view(reduce_op)), kFunction);
  Group& group = group_of(std::string(group_name), input.device().type());
  at::Tensor output = result_like(input);
  Submission s{operations::kAllReduce, c10d::kUnsetTimeout, false};
  const ConstBuffer in = s.buffers.read(input);
  const Buffer out = s.buffers.write(output);
  group
      .submit(std::move(s), input,
              [&](Communicator& c, const CallOptions& options) {
                return c.all_reduce(in, out, reduction.dtype, reduction.op, options);
              })
      ->wait();
  return output;
}

at::Tensor all_reduce_shape(const at::Tensor& input, c10::string_view, c10::string_view) { return result_like(input); }

}  // namespace

TORCH_LIBRARY(sinew, m) {
  m.def("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(sinew, CPU, m) { m.impl("all_reduce", &all_reduce); }
TORCH_LIBRARY_IMPL(sinew, CUDA, m) { m.impl("all_reduce", &all_reduce); }
TORCH_LIBRARY_IMPL(sinew, Meta, m) { m.impl("all_reduce", &all_reduce_shape); }

}  // namespace sinew::torch_backend
