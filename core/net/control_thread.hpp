#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {

/// The one thread per process that serves its listening port and the control planes of its Worlds. It sleeps in an
/// event loop, and all signals are blocked in it. It never touches user buffers, transports or the path of a call. It
/// ends with the last owner.
/// Thread:   any thread may call post() and run(). The other functions are called on the control thread.
/// Lifetime: the last owner must not end on the control thread. A fork's child has no such thread, so post() and run()
///           do nothing there.
class SINEW_API ControlThread {
 public:
  using Call = EventLoop::Call;

  /// Errors: Error{System} if the kernel refuses a descriptor or a thread.
  static std::shared_ptr<ControlThread> of_process();
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  /// Lets the thread run the call and does not wait. forget(owner) removes the call if it has not begun.
  void post(Call call, const void* owner = nullptr);
  /// Runs the call on the thread and waits for its end. Throws what the call throws.
  void run(const Call& call);
  EventLoop& loop() noexcept { return loop_; }

  /// Calls `ready` whenever the descriptor is readable or writable, as `interest` says.
  void watch(int descriptor, EventLoop::Interest interest, Call ready);
  void change(int descriptor, EventLoop::Interest interest);
  /// Ends the watch. It must be called before the descriptor is closed.
  void unwatch(int descriptor) noexcept { watches_.erase(descriptor); }
  /// Runs the call once, at `when` or later. forget(owner) removes it.
  void at(Clock::time_point when, const void* owner, Call call);
  /// Removes the calls of this owner that have not begun: those of at() and those of post().
  void forget(const void* owner) noexcept;

 private:
  struct Posted {
    const void* owner;
    Call call;
  };
  struct Timer {
    const void* owner;
    EventLoop::Timer timer;
  };

  ControlThread();
  void run_first_posted();

  const ForkMark fork_;
  EventLoop loop_;
  std::mutex mutex_;
  std::deque<Posted> posted_;
  std::map<int, EventLoop::Watch> watches_;
  std::list<Timer> timers_;
  std::thread thread_;
};

}  // namespace sinew
