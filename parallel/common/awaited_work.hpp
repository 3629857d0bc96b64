#pragma once

#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

namespace sinew::parallel {

/// A Work that uses memory of the object or function that owns the AwaitedWork. The destructor waits for the end of the
/// work, so that an exception cannot free this memory too early.
class AwaitedWork {
 public:
  AwaitedWork() noexcept = default;
  explicit AwaitedWork(Work work) noexcept : work_(std::move(work)) {}
  AwaitedWork(AwaitedWork&&) noexcept = default;
  AwaitedWork& operator=(AwaitedWork&&) noexcept = default;
  ~AwaitedWork() {
    try {
      work_.get();
    } catch (const Error&) {  // a destructor must not throw; the owner is often left by an exception already
    }
  }

  void get() { std::exchange(work_, {}).get(); }

 private:
  Work work_;
};

}  // namespace sinew::parallel
