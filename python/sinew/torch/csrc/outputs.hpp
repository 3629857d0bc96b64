#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <utility>
#include <vector>

namespace sinew::torch_backend {

/// The tensors that a call of c10d results in: a list, or a list of lists.
struct Outputs {
  std::vector<at::Tensor> list;
  std::vector<std::vector<at::Tensor>> lists;  ///< used instead of `list` if it is not empty

  Outputs() = default;
  Outputs(std::vector<at::Tensor> tensors) : list(std::move(tensors)) {}
  /// As Gloo does, a list of one list counts as that list.
  static Outputs of_lists(const std::vector<std::vector<at::Tensor>>& tensors) {
    Outputs o;
    if (tensors.size() == 1) {
      o.list = tensors.front();
    } else {
      o.lists = tensors;
    }
    return o;
  }

  c10::IValue value() const { return lists.empty() ? c10::IValue(list) : c10::IValue(lists); }
  /// `device`: of the tensors, whose streams wait for the value where the future is waited for; nothing: the CPU.
  c10::intrusive_ptr<c10::ivalue::Future> future(std::optional<c10::Device> device = {}) const {
    const auto list_of_tensors = c10::ListType::create(c10::TensorType::get());
    std::vector<c10::Device> devices;
    if (device) devices.push_back(*device);
    return c10::make_intrusive<c10::ivalue::Future>(
        lists.empty() ? c10::TypePtr(list_of_tensors) : c10::TypePtr(c10::ListType::create(list_of_tensors)),
        std::move(devices));
  }
};

}  // namespace sinew::torch_backend
