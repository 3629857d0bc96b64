#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// The one thread per process that serves the control planes of its Worlds: asleep in epoll, all signals blocked. It
/// never touches user buffers, transports or the path of a call. Ends with the last World that holds it.
/// Thread: post and run from any thread but its own; the rest on its own only.
class SINEW_API ControlThread {
 public:
  using Call = std::function<void()>;
  using Ready = std::function<void(std::uint32_t events)>;

  /// Errors: Error{System} where the kernel refuses an epoll descriptor or a thread.
  static std::shared_ptr<ControlThread> of_process();
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  /// `owner` as in at().
  void post(Call call, const void* owner = nullptr);
  /// Runs the call on the thread and waits for its end; what it throws is thrown here.
  void run(const Call& call);

  /// Calls `ready` with epoll's event bits. Level-triggered.
  void watch(int descriptor, std::uint32_t events, Ready ready);
  void change(int descriptor, std::uint32_t events);
  void unwatch(int descriptor) noexcept;
  /// The same for an open file that lives on when its descriptor is closed, which may be at once: epoll goes on to tell
  /// of it. What it returns is what unwatch_file takes.
  std::uint64_t watch_file(int descriptor, std::uint32_t events, Ready ready);
  void unwatch_file(std::uint64_t watch) noexcept;
  /// Calls once, not before `when`. `owner` is what forget() takes.
  void at(Clock::time_point when, const void* owner, Call call);
  /// Drops the owner's timers, and what was posted in its name and has not begun.
  void forget(const void* owner) noexcept;

 private:
  struct Watched {
    int descriptor;  // -1: watched as an open file, whose number may be another's by now
    Ready ready;
  };
  struct Posted {
    const void* owner;
    Call call;
  };
  struct Timer {
    const void* owner;
    Call call;
  };

  ControlThread();
  void loop();
  void run_posted();
  void run_timers();
  int timeout_ms() const noexcept;

  const pid_t process_;
  FileDescriptor epoll_;
  FileDescriptor event_;
  std::mutex mutex_;
  std::deque<Posted> posted_;
  bool stop_ = false;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Watched>>
      watched_;  // by epoll's data: a closed descriptor's number comes back
  std::multimap<Clock::time_point, Timer> timers_;
  std::thread thread_;
};

}  // namespace sinew
