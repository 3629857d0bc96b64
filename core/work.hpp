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

/// The one handle for work in flight, on host or device: a place in its World's slab of calls.
/// Lifetime: buffers belong to the operation until it is done; destroying an unfinished Work neither cancels nor waits,
///           unless an exception unwinds the stack, and the buffers with it: then it waits, a second for the end, and
///           after that as get() does when time is up. It may outlive its World, whose end ends it.
/// Thread:   the World's thread; with Threads::Multiple any one thread at a time uses a Work, different ones at once.
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

  /// Never makes progress by itself: with Threads::Single a loop that only looks here does not end. See test().
  bool done() const noexcept;
  /// Makes what progress there is, without waiting, and says whether the call has ended: get() then returns or throws
  /// at once.
  bool test();
  /// Pending when the deadline passes first: the operation goes on and may be waited for again.
  Status wait(Deadline deadline = {});
  /// Waits for the end and throws Error unless it is Ok. After the configured timeout the call ends with its
  /// communicator, as by CallOptions::deadline: whoever leaves by this exception frees the buffers.
  void get();
  /// Makes the stream wait for work that runs on the device, as soon as it is enqueued there. Of work that runs on the
  /// host, on whatever memory, and for a stream of no device the host waits, as in get().
  void order(StreamRef stream);
  /// The same without an exception. Pending when the deadline passes before the work is enqueued: it goes on and may be
  /// ordered again.
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
