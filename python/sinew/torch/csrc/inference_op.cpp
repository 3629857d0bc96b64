#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <tuple>

#include <sinew/core/numeric/add_rms_norm.hpp>

#include "backend.hpp"
#include "errors.hpp"
#include "tensors.hpp"

// The operators torch.ops.sinew, for inference. A call costs the dispatcher and the call of sinew, and torch.compile
// takes it as it stands: Meta kernels tell the shapes of results.

namespace sinew::torch_backend {
namespace {

constexpr const char* kAllReduce = "torch.ops.sinew.all_reduce";
constexpr const char* kFused = "torch.ops.sinew.all_reduce_add_rms_norm";

c10d::ReduceOp op_of(std::string_view name) {
  if (name == "sum") return c10d::ReduceOp::SUM;
  if (name == "avg") return c10d::ReduceOp::AVG;
  if (name == "product") return c10d::ReduceOp::PRODUCT;
  if (name == "min") return c10d::ReduceOp::MIN;
  if (name == "max") return c10d::ReduceOp::MAX;
  if (name == "band") return c10d::ReduceOp::BAND;
  if (name == "bor") return c10d::ReduceOp::BOR;
  if (name == "bxor") return c10d::ReduceOp::BXOR;
  reject(kAllReduce,
         c10::str("reduce_op is \"", name,
                  "\", expected \"sum\", \"avg\", \"product\", \"min\", \"max\", \"band\", \"bor\" or \"bxor\""));
}

Group& group_of(const char* function, const std::string& group_name, c10::DeviceType device) {
  const auto backend = c10d::resolve_process_group(group_name)->getBackend(device);
  auto* const sinew_backend = dynamic_cast<SinewBackend*>(backend.get());
  if (sinew_backend == nullptr) {
    reject(function, c10::str("process group \"", group_name, "\" uses ", backend->getBackendName(), " for ",
                              c10::DeviceTypeName(device), " tensors, expected sinew"));
  }
  return sinew_backend->group();  // its process group keeps the backend alive
}

at::Tensor result_like(const at::Tensor& input) {
  return at::empty(input.sizes(), input.options().memory_format(at::MemoryFormat::Contiguous));
}

/// `output` may be `input`.
void reduce_into(const at::Tensor& output, const at::Tensor& input, const Reduction& reduction, Group& group) {
  Submission s{operations::kAllReduce, c10d::kUnsetTimeout, false};
  const bool in_place = output.is_same(input);
  const Buffer out = in_place ? s.buffers.update(output) : s.buffers.write(output);
  const ConstBuffer in = in_place ? ConstBuffer(out) : s.buffers.read(input);
  group
      .submit(std::move(s), input,
              [&](Communicator& c, const CallOptions& options) {
                return c.all_reduce(in, out, reduction.dtype, reduction.op, options);
              })
      ->wait();
}

at::Tensor all_reduce(const at::Tensor& input, c10::string_view reduce_op, c10::string_view group_name) {
  require_dense(input, kAllReduce);
  const Reduction reduction = reduction_of(input.scalar_type(), op_of(std::string_view(reduce_op)), kAllReduce);
  Group& group = group_of(kAllReduce, std::string(group_name), input.device().type());
  at::Tensor output = result_like(input);
  reduce_into(output, input, reduction, group);
  return output;
}

at::Tensor all_reduce_shape(const at::Tensor& input, c10::string_view, c10::string_view) { return result_like(input); }

/// Errors: RuntimeError that names an argument of the fused operator that does not fit.
void require_norm(const at::Tensor& input, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  if (input.dim() == 0) reject(kFused, "input has no dimensions, expected rows in its last one");
  if (!at::isFloatingType(input.scalar_type()) || c10::elementSize(input.scalar_type()) < 2) {
    reject(kFused, c10::str("input has dtype ", input.scalar_type(), ", expected Half, BFloat16, Float or Double"));
  }
  if (input.sizes() != residual.sizes())
    reject(kFused, c10::str("residual has sizes ", residual.sizes(), ", expected those of input, ", input.sizes()));
  if (weight.dim() != 1 || weight.size(0) != input.size(-1) || weight.size(0) == 0) {
    reject(kFused,
           c10::str("weight has sizes ", weight.sizes(),
                    ", expected one element for each of the last dimension of input, which has sizes ", input.sizes()));
  }
  for (const auto& [name, other] : {std::pair("residual", &residual), {"weight", &weight}}) {
    if (other->scalar_type() != input.scalar_type() || other->device() != input.device()) {
      reject(kFused, c10::str(name, " is ", other->scalar_type(), " on ", other->device(), ", expected ",
                              input.scalar_type(), " on ", input.device(), " as input"));
    }
  }
  if (!(eps >= 0)) reject(kFused, c10::str("eps is ", eps, ", expected 0 or more"));
}

/// The sum over the ranks lies in `normed`. All tensors are contiguous, and in CPU memory. `new_residual` may be
/// `residual`.
void add_norm(const at::Tensor& normed, const at::Tensor& new_residual, const at::Tensor& residual,
              const at::Tensor& weight, double eps) {
  constexpr std::int64_t kElementsOfAThread = 32 << 10;
  const std::int64_t width = weight.size(0);
  const AddRmsNorm shape{.dtype = moved_element(normed.scalar_type()).dtype,
                         .width = static_cast<std::size_t>(width),
                         .epsilon = eps,
                         .weight = weight.const_data_ptr()};
  const std::size_t row_bytes = shape.width * normed.element_size();
  const auto at = [row_bytes](const at::Tensor& t, std::int64_t row) {
    return static_cast<std::byte*>(t.data_ptr()) + static_cast<std::size_t>(row) * row_bytes;
  };
  at::parallel_for(0, normed.numel() / width, std::max<std::int64_t>(kElementsOfAThread / width, 1),
                   [&](std::int64_t first, std::int64_t end) {
                     add_rms_norm(shape, static_cast<std::size_t>(end - first), at(normed, first),
                                  at(new_residual, first), at(residual, first), at(normed, first));
                   });
}

using NormedAndResidual = std::tuple<at::Tensor, at::Tensor>;

NormedAndResidual all_reduce_add_rms_norm(const at::Tensor& input, const at::Tensor& residual, const at::Tensor& weight,
                                          double eps, c10::string_view group_name) {
  for (const at::Tensor* t : {&input, &residual, &weight}) require_dense(*t, kFused);
  require_norm(input, residual, weight, eps);
  const Reduction reduction = reduction_of(input.scalar_type(), c10d::ReduceOp::SUM, kFused);
  Group& group = group_of(kFused, std::string(group_name), input.device().type());
  at::Tensor normed = result_like(input);
  reduce_into(normed, input, reduction, group);
  if (!input.is_cpu()) {
    at::Tensor sum = normed.add_(residual);
    return {at::rms_norm(sum, weight.sizes(), weight, eps), sum};
  }
  at::Tensor new_residual = result_like(residual);
  add_norm(normed, new_residual, residual.contiguous(), weight.contiguous(), eps);
  return {normed, new_residual};
}

void all_reduce_add_rms_norm_in_place(const at::Tensor& input, const at::Tensor& residual, const at::Tensor& weight,
                                      double eps, c10::string_view group_name) {
  if (input.is_cpu() && input.is_contiguous() && residual.is_contiguous() && !input.is_alias_of(residual)) {
    for (const at::Tensor* t : {&input, &residual, &weight}) require_dense(*t, kFused);
    require_norm(input, residual, weight, eps);
    reduce_into(input, input, reduction_of(input.scalar_type(), c10d::ReduceOp::SUM, kFused),
                group_of(kFused, std::string(group_name), input.device().type()));
    return add_norm(input, residual, residual, weight.contiguous(), eps);
  }
  const auto [normed, new_residual] = all_reduce_add_rms_norm(input, residual, weight, eps, group_name);
  residual.copy_(new_residual);
  input.copy_(normed);
}

NormedAndResidual all_reduce_add_rms_norm_shape(const at::Tensor& input, const at::Tensor& residual,
                                                const at::Tensor& weight, double eps, c10::string_view) {
  require_norm(input, residual, weight, eps);
  return {result_like(input), result_like(residual)};
}

void all_reduce_add_rms_norm_in_place_shape(const at::Tensor& input, const at::Tensor& residual,
                                            const at::Tensor& weight, double eps, c10::string_view) {
  require_norm(input, residual, weight, eps);
}

}  // namespace

TORCH_LIBRARY(sinew, m) {
  m.def("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def(
      "all_reduce_add_rms_norm(Tensor input, Tensor residual, Tensor weight, float eps, str group_name) -> "
      "(Tensor normed, Tensor new_residual)",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "all_reduce_add_rms_norm_(Tensor(a!) input, Tensor(b!) residual, Tensor weight, float eps, str group_name) -> ()",
      {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(sinew, CPU, m) {
  m.impl("all_reduce", &all_reduce);
  m.impl("all_reduce_add_rms_norm", &all_reduce_add_rms_norm);
  m.impl("all_reduce_add_rms_norm_", &all_reduce_add_rms_norm_in_place);
}
TORCH_LIBRARY_IMPL(sinew, CUDA, m) {
  m.impl("all_reduce", &all_reduce);
  m.impl("all_reduce_add_rms_norm", &all_reduce_add_rms_norm);
  m.impl("all_reduce_add_rms_norm_", &all_reduce_add_rms_norm_in_place);
}
TORCH_LIBRARY_IMPL(sinew, Meta, m) {
  m.impl("all_reduce", &all_reduce_shape);
  m.impl("all_reduce_add_rms_norm", &all_reduce_add_rms_norm_shape);
  m.impl("all_reduce_add_rms_norm_", &all_reduce_add_rms_norm_in_place_shape);
}

}  // namespace sinew::torch_backend
