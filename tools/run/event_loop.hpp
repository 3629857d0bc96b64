#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::run {

enum class Until { Readable, Writable };

/// Calls back when descriptors are readable or writable. One thread; callbacks may add and remove descriptors, also
/// their own.
class EventLoop {
 public:
  EventLoop();
  /// Files, which are always writable, are not reported as such.
  void add(int descriptor, std::function<void()> ready, Until until = Until::Readable);
  /// While it is on, the descriptor is not waited for; that the other end has gone may still be reported, once.
  /// Never fails for what was added.
  void pause(int descriptor, bool on);
  void remove(int descriptor);
  /// Waits for at most so long (-1: until something comes) and calls whoever is concerned.
  void run_once(int wait_ms);

 private:
  FileDescriptor epoll_;
  std::uint64_t next_id_ = 0;
  struct Watch {
    std::uint64_t id;
    std::uint32_t events;
  };
  std::map<int, Watch> watches_;
  std::map<std::uint64_t, std::shared_ptr<std::function<void()>>> callbacks_;
};

}  // namespace sinew::run
