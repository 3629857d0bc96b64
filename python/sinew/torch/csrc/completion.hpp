#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <sinew/core/error.hpp>

#include "hooks.hpp"

namespace sinew::torch_backend {

/// What a process group does when calls end: it remembers the kind of the first failure and calls the user's hooks.
/// Thread: any.
class Completion {
 public:
  /// Called before the group is aborted, and when the failure of a call is found.
  Hooks<>& on_abort() noexcept { return on_abort_; }
  /// Called with the number of a call that has succeeded.
  Hooks<std::uint64_t>& on_success() noexcept { return on_success_; }

  void succeeded(std::uint64_t key) const {
    if (on_success_.any()) [[unlikely]]
      on_success_.call(key);
  }
  void failed(Code code);
  c10d::ErrorType error() const noexcept { return error_.load(std::memory_order_relaxed); }

 private:
  std::atomic<c10d::ErrorType> error_ = c10d::ErrorType::SUCCESS;
  Hooks<> on_abort_;
  Hooks<std::uint64_t> on_success_;
};

}  // namespace sinew::torch_backend
