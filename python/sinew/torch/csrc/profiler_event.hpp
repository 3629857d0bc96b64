#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <functional>
#include <utility>

namespace sinew::torch_backend {

/// One event of torch's profiler, from the call to its end, which another thread may find. Without a profiler there is
/// no event and the cost is one look at thread-local memory.
class ProfilerEvent {
 public:
  ProfilerEvent() = default;
  /// `title` is a literal. The profiler shows the shapes of `inputs`.
  ProfilerEvent(const char* title, at::TensorList inputs) {
    if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE)) [[unlikely]]
      begin(std::move(*callbacks), title, inputs);
  }

  void end() {
    if (end_) [[unlikely]]
      std::exchange(end_, nullptr)();
  }

 private:
  void begin(at::StepCallbacks&& callbacks, const char* title, at::TensorList inputs);

  std::function<void()> end_;
};

}  // namespace sinew::torch_backend
