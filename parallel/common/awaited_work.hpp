#pragma once

#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

namespace sinew::parallel {

/// Work on memory whose owner may leave by an exception. The destructor waits for the end of the work.
class AwaitedWork {
 public:
  AwaitedWork() noexcept = default;
  explicit AwaitedWork(Work work) noexcept : work_(std::move(work)) {}
  AwaitedWork(AwaitedWork&&) noexcept = default;
  AwaitedWork& operator=(AwaitedWork&&) noexcept = default;
  ~AwaitedWork() {
    try {
      work_.get();
    } catch (const Error&) {  // whoever leaves by an exception has a reason of his own
    }
  }

  void get() { std::exchange(work_, {}).get(); }

 private:
  Work work_;
};

}  // namespace sinew::parallel
