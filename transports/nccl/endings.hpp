#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// Ends communicators, each on a thread of its own: NCCL may wait for other ranks there, or for its own threads.
/// Thread: any.
class Endings {
 public:
  /// Set once NCCL is through with the communicator.
  using Done = std::shared_ptr<const std::atomic<bool>>;

  Endings(const Api& api, Duration timeout);
  /// Waits for all of them, little longer than `timeout`. What hangs is left behind with a warning: it touches nothing
  /// of ours.
  ~Endings();
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  /// With calls in flight or failed. Kernels stop; where is said by a later event of their stream. `used`: what NCCL
  /// may use until then.
  Done abort(Comm comm, std::vector<std::shared_ptr<const void>> used);
  /// Ends one whose calls are all over. It is aborted if it does not come to an end within the timeout.
  Done finish(Comm comm);

 private:
  struct Running;

  void start(std::function<void()> body);

  const Api& api_;
  const Duration timeout_;
  std::shared_ptr<Running> running_;
};

}  // namespace sinew::nccl
