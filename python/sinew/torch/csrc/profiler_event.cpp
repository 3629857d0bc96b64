#include "profiler_event.hpp"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

namespace sinew::torch_backend {

void ProfilerEvent::begin(at::StepCallbacks&& callbacks, const char* title, at::TensorList inputs) {
  auto event = std::make_shared<at::RecordFunction>(std::move(callbacks));
  if (!event->isActive()) return;
  event->_setAsync();
  const std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  event->before(title, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
  // The thread that finds the call's end needs the profiler's state of the thread that made the call.
  end_ = at::wrapPropagateTLSState([event = std::move(event)] { event->end(); });
}

}  // namespace sinew::torch_backend
