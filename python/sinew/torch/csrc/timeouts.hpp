#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace sinew::torch_backend {

/// No timeout is longer than a century, so that no sum of a time and a timeout overflows the clock. Programs give
/// longer ones to wait for ever.
inline std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 36525));
}

/// How long the calls of one process group may take. An extension is added to the time of each call that is made after
/// it, until the first of these calls has ended.
/// Thread: any.
class Timeouts {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit Timeouts(Milliseconds of_group) : of_group_(checked(of_group).count()) {}

  Milliseconds of_group() const noexcept { return Milliseconds(of_group_.load(std::memory_order_relaxed)); }
  /// Errors: RuntimeError if the timeout is shorter than 1 ms. PyTorch passes one that it cannot hold as a negative
  ///         number.
  void set(Milliseconds timeout) { of_group_.store(checked(timeout).count(), std::memory_order_relaxed); }
  static Milliseconds checked(Milliseconds of_group);

  struct OfCall {
    Milliseconds timeout;
    std::uint64_t latest_extension = 0;  ///< give it to ended() when the call has ended; 0: there was none
  };
  OfCall of_call(Milliseconds asked) const {
    const Milliseconds timeout = asked == c10d::kUnsetTimeout ? of_group() : bounded(asked);
    if (!extended_.load(std::memory_order_relaxed)) [[likely]]
      return {timeout};
    return extended(timeout);
  }

  void extend(Milliseconds by);
  void ended(std::uint64_t latest_extension);

 private:
  struct Extension {
    std::uint64_t number;
    Milliseconds by;
  };
  OfCall extended(Milliseconds timeout) const;

  std::atomic<std::int64_t> of_group_;
  std::atomic<bool> extended_ = false;
  mutable std::mutex mutex_;
  std::vector<Extension> extensions_;
  std::uint64_t last_ = 0;
};

}  // namespace sinew::torch_backend
