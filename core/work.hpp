#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

struct PendingCall;

/// The handle of a call in flight, on the host or on a device.
/// Lifetime: buffers belong to the call until it is done. The destructor of an unfinished Work does not cancel the
///           call, and it waits only while an exception unwinds the stack, since the buffers may be destroyed, too. It
///           waits a second for the call's end, and then ends the communicator as get() does. A Work may outlive its
///           World, which ends the call.
/// Thread:   the World's thread. With Threads::Multiple any thread may use a Work, one at a time. Several threads may
///           use different Works.
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

  /// True if the call has ended. It makes no progress: with Threads::Single a loop that calls only done() does not end.
  /// See test().
  bool done() const noexcept;
  /// True if the call was captured into a graph. It has ended then, and nothing of it has run. False after get().
  bool captured() const noexcept;
  /// Makes progress without waiting. Returns true if the call has ended: then get() returns or throws at once.
  bool test();
  /// Waits for the end of the call. Returns Pending if the deadline passes first. The call goes on, and wait() may be
  /// called again.
  Status wait(Deadline deadline = {});
  /// Waits for the end of the call and throws Error if its status is not Ok. After the configured timeout it ends the
  /// communicator, as CallOptions::deadline does. So no buffer is used any more when the exception leaves this
  /// function.
  void get();
  /// Makes the stream wait for the call's result, as soon as the call's work is enqueued on the device. If the call
  /// runs on the host, or if the stream is of no device, the host waits as in get().
  void order(StreamRef stream);
  /// Does the same without an exception. Returns Pending if the deadline passes before the work is enqueued. The call
  /// goes on, and order() may be called again.
  Status order(StreamRef stream, Deadline deadline);
  /// Calls `run` once with the status that the call ends with. If the call has ended already, `run` is called here.
  /// Otherwise a thread of the World's executor calls it, never the thread that makes progress. The executor always has
  /// a free thread, so `run` may start calls and wait for them where the World is of Threads::Multiple. May be called
  /// several times; the functions are called in that order, each after the one before has been taken by a thread.
  /// Lifetime: `run` is called even if this Work goes first. The World's end waits for functions that run.
  /// Errors:   `run` must not throw: an exception ends the process, as in any thread.
  /// Cost:     one wake-up of a sleeping thread, 5 to 50 us after the call's end.
  void then(std::function<void(const Status&)> run);
  /// Names the source line that made this call, such as "train.py:12", in errors and verdicts of all ranks, instead of
  /// CallOptions::where. For interpreters, which look for the line only when a call takes long. Does nothing if the
  /// call has ended.
  /// Thread: with Threads::Multiple any thread, while another one waits for this Work.
  void name_site(const std::string& text);
  /// The rank, in the communicator, whose message this receive took. -1: this is no receive, or it has not ended.
  int source() const noexcept;

 private:
  void abandon() noexcept;

  PendingCall* call_ = nullptr;
};

/// Waits until all of the Works have ended. Returns the first failure in their order, or Pending if the deadline passes
/// first: the Works that have not ended go on.
SINEW_API Status wait_all(std::span<Work> works, Deadline deadline = {});

}  // namespace sinew
