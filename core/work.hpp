#pragma once

#include <utility>

#include <sinew/core/call_options.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/export.hpp>

namespace sinew {

struct PendingCall;

/// The one handle for work in flight, on host or device: a place in its World's slab of calls.
/// Lifetime: buffers belong to the operation until it is done; destroying an unfinished Work neither cancels nor waits,
///           unless an exception unwinds the stack, and the buffers with it: then it waits, a second for the end, and
///           after that as get() does when time is up. It may outlive its World, whose end ends it.
/// Thread: the World's thread; with Drive::Thread any one thread may wait.
class [[nodiscard]] SINEW_API Work {
 public:
  Work() noexcept = default;  ///< already done, Ok
  explicit Work(PendingCall& call) noexcept : call_(&call) {}
  Work(Work&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(call_, other.call_);
    return *this;
  }
  ~Work() {
    if (call_) abandon();
  }

  /// Never makes progress by itself: with Drive::Caller a loop that only looks here does not end. See test().
  bool done() const noexcept;
  /// Makes what progress there is, without waiting, and says whether the call has ended: get() then returns or throws
  /// at once. With Drive::Thread as done().
  bool test();
  /// Pending when the deadline passes first: the operation goes on and may be waited for again.
  Status wait(Deadline deadline = {});
  /// Waits for the end and throws Error unless it is Ok. After the configured timeout the call ends with its
  /// communicator, as by CallOptions::deadline: whoever leaves by this exception frees the buffers.
  void get();
  /// Makes the stream wait for work that runs on the device, as soon as it is enqueued there. Of work that runs on the
  /// host, on whatever memory, and for a stream of no device the host waits, as in get().
  void order(StreamRef stream);

 private:
  void abandon() noexcept;

  PendingCall* call_ = nullptr;
};

}  // namespace sinew
