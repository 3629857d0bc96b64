#include "timeouts.hpp"

#include "errors.hpp"

namespace sinew::torch_backend {

Timeouts::Milliseconds Timeouts::checked(Milliseconds of_group) {
  if (of_group <= Milliseconds::zero()) {
    reject("timeout",
           c10::str("a process group cannot have a timeout of ", of_group.count(),
                    " ms: expected 1 ms or more (PyTorch passes a timedelta of more than 292,000 years, such "
                    "as timedelta.max, as a negative number)"));
  }
  return bounded(of_group);
}

Timeouts::OfCall Timeouts::extended(Milliseconds timeout) const {
  const std::lock_guard lock(mutex_);
  for (const Extension& e : extensions_) timeout = bounded(timeout + bounded(e.by));
  return {timeout, extensions_.empty() ? 0 : extensions_.back().number};
}

void Timeouts::extend(Milliseconds by) {
  const std::lock_guard lock(mutex_);
  extensions_.push_back({++last_, by});
  extended_.store(true, std::memory_order_relaxed);
}

void Timeouts::ended(std::uint64_t latest_extension) {
  const std::lock_guard lock(mutex_);
  std::erase_if(extensions_, [&](const Extension& e) { return e.number <= latest_extension; });
  extended_.store(!extensions_.empty(), std::memory_order_relaxed);
}

}  // namespace sinew::torch_backend
