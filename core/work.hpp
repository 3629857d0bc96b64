#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <sinew/core/call_options.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/export.hpp>

namespace sinew {

class CallSlab;

/// The one handle for work in flight, on host or device: a place in its World's slab of calls.
/// Lifetime: buffers belong to the operation until it is done; destroying an unfinished Work neither cancels nor waits.
/// Thread: the World's thread; with Drive::Thread any one thread may wait.
class [[nodiscard]] SINEW_API Work {
 public:
  Work() noexcept = default;  ///< already done, Ok
  Work(CallSlab* slab, std::uint32_t index, std::uint32_t serial) noexcept
      : slab_(slab), index_(index), serial_(serial) {}
  Work(Work&& other) noexcept
      : slab_(std::exchange(other.slab_, nullptr)), index_(other.index_), serial_(other.serial_) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(slab_, other.slab_);
    std::swap(index_, other.index_);
    std::swap(serial_, other.serial_);
    return *this;
  }
  ~Work() {
    if (slab_) abandon();
  }

  /// Never makes progress by itself; poll the World or wait.
  bool done() const noexcept;
  /// Pending when the deadline passes first: the operation goes on and may be waited for again.
  Status wait(Deadline deadline = {});
  /// Waits for the end and throws Error unless it is Ok.
  void get();
  /// Device work: makes the stream wait for it; host work: waits.
  void order(StreamRef stream);

 private:
  void abandon() noexcept;

  CallSlab* slab_ = nullptr;
  std::uint32_t index_ = 0;
  std::uint32_t serial_ = 0;
};

}  // namespace sinew
