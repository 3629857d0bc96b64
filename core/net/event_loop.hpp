#pragma once

#include <functional>
#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// Calls functions when descriptors are ready, when a time has come, and when another thread asks for it. It runs on
/// Boost.Asio, of which nothing is seen outside of event_loop.cpp. The store, the control thread and sinew-run live on
/// such loops; the path of a message does not (ADR 30).
/// Thread:   one thread runs the loop, and that thread alone makes, changes and ends watches and timers while the loop
///           runs. post() and stop() may be called from any thread.
/// Lifetime: watches and timers end before their loop. In a fork's child, which shares the kernel's list of descriptors
///           with its parent, they and the loop end without touching it, and nothing else may be called.
class SINEW_API EventLoop {
 public:
  using Call = std::function<void()>;

  /// What a watch waits for. An error or a hang-up counts as both. Neither: nothing is reported.
  struct Interest {
    bool read = false;
    bool write = false;
    friend bool operator==(Interest, Interest) = default;
  };

  /// A descriptor that the loop watches. It must end before the descriptor is closed.
  class SINEW_API Watch {
   public:
    Watch() noexcept = default;
    Watch(Watch&& other) noexcept;
    Watch& operator=(Watch&& other) noexcept;
    ~Watch();

    /// From now on the loop waits for this instead.
    void want(Interest interest);

   private:
    friend class EventLoop;
    struct State;
    explicit Watch(std::shared_ptr<State> state) noexcept;
    std::shared_ptr<State> state_;
  };

  /// A function that the loop calls at a later time. A timer holds one such function.
  class SINEW_API Timer {
   public:
    explicit Timer(EventLoop& loop);
    Timer(Timer&& other) noexcept;
    Timer& operator=(Timer&& other) noexcept;
    ~Timer();

    /// Calls `then` once, not before `when`. It replaces what the timer held. `then` may start the timer again.
    void start(Clock::time_point when, Call then);
    void start(Duration wait, Call then) { start(Clock::now() + wait, std::move(then)); }
    void stop();

   private:
    struct State;
    std::shared_ptr<State> state_;
  };

  /// Errors: Error{System} where the kernel refuses a descriptor.
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Calls `ready` again and again while the descriptor is ready for what the watch waits for. `ready` may end the
  /// watch. Regular files, which are always ready, are not reported.
  /// Errors: Error{System} where the kernel watches no more descriptors for this user.
  [[nodiscard]] Watch watch(int descriptor, Interest interest, Call ready);

  /// Has the loop's thread call it, after what was posted before.
  void post(Call call);
  /// Returns after stop(). An exception that a call throws leaves by here.
  void run();
  /// Makes run() return after what was posted before.
  void stop();
  /// Waits for something to do until the deadline at most, and does what there is. It may return before, having done
  /// nothing.
  void run_once(Deadline until);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace sinew
