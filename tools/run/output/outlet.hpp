#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::run {

/// What goes out at a descriptor that others share. Nothing here waits for whoever reads there: what is not taken at
/// once is kept, and goes out as the loop finds room.
class Outlet {
 public:
  static constexpr std::size_t kFull = 1 << 20;  ///< bytes kept from which on it asks for no more

  struct Events {
    std::function<void(bool full)> full;            ///< it is; or it is no longer
    std::function<void(int error_number)> refused;  ///< what was kept could not be written, and is dropped
  };
  Outlet(EventLoop& loop, int descriptor, Events events);
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  /// Takes it in any case, also when full.
  void put(std::string_view bytes);
  /// Forgets what is kept.
  void drop();
  /// Bytes kept.
  std::size_t waiting() const noexcept { return text_.size() - sent_; }
  bool full() const noexcept { return full_; }
  /// When the first of what is kept came, or some was taken after it.
  Clock::time_point moved() const noexcept { return moved_; }

 private:
  int descriptor() const noexcept { return own_ ? own_.get() : given_; }
  void flush();
  /// false: there is no more room.
  bool write_some();
  void watch(bool on);
  void judge();

  Events events_;
  int given_;
  FileDescriptor own_;  // the same pipe or terminal, without blocking; none: of another kind, or not ours to open
  std::string text_;
  std::size_t sent_ = 0;  // bytes of the text
  Clock::time_point moved_;
  EventLoop::Watch watch_;
  bool watched_ = false;
  bool full_ = false;
};

}  // namespace sinew::run
