#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <sinew/core/file_descriptor.hpp>

namespace sinew::run {

/// Calls back when descriptors are readable. One thread; callbacks may add and remove descriptors, also their own.
class EventLoop {
 public:
  EventLoop();
  void add(int descriptor, std::function<void()> readable);
  void remove(int descriptor);
  /// Waits for at most so long (-1: until something comes) and calls whoever is concerned.
  void run_once(int wait_ms);

 private:
  FileDescriptor epoll_;
  std::uint64_t next_id_ = 0;
  std::map<int, std::uint64_t> ids_;
  std::map<std::uint64_t, std::shared_ptr<std::function<void()>>> callbacks_;
};

}  // namespace sinew::run
