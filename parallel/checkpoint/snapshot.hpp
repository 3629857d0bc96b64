#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include <sinew/core/buffer.hpp>

namespace sinew::parallel {

/// A copy of buffers in memory that is kept for the next copy. Any number of threads copy at the same time, each the
/// chunk that is next. So a thread that needs the buffers helps with the rest instead of waiting for it.
class Snapshot {
 public:
  /// Allocates memory for copies of so many bytes, unless there is enough of it.
  /// Errors: std::bad_alloc.
  void reserve(std::size_t bytes);
  /// Names the buffers. No copy is in flight. Their bytes are at most those of reserve().
  void begin(std::vector<ConstBuffer> buffers);
  /// Copies what no other thread has begun to copy. Returns when everything is copied.
  void finish() noexcept;
  /// Returns whether everything is copied.
  bool done() const noexcept { return copied_.load(std::memory_order_acquire) == chunks_; }
  /// The copies, one for each buffer, in the same order. They are complete when done() is true.
  std::vector<ConstBuffer> copies() const;

 private:
  void copy(std::size_t chunk) noexcept;
  std::size_t bytes() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  std::vector<ConstBuffer> buffers_;
  std::vector<std::size_t> ends_;  // of the copies, from the beginning of the memory
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0, chunks_ = 0;
  std::atomic<std::size_t> next_{0}, copied_{0};
};

}  // namespace sinew::parallel
