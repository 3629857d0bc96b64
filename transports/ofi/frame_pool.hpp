#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include <sinew/transports/ofi/rail.hpp>
#include <sinew/transports/ofi/request.hpp>

namespace sinew::ofi {

/// Memory for one frame that the provider reads or fills.
struct Frame : Request {
  Frame(Completed c, std::byte* d, void* r, void* o) noexcept : Request(c), data(d), descriptor(r), owner(o) {}

  std::byte* data;
  void* descriptor;  ///< of its registration, where the provider wants one
  void* owner;       ///< for whoever uses the pool
};

/// Frames of one size, registered by the slab, kept for the next use.
class FramePool {
 public:
  FramePool(Rail& rail, std::size_t frame_bytes) noexcept : rail_(rail), frame_bytes_(frame_bytes) {}

  /// Who is told when the provider has done with a frame; before the first one is taken.
  void serve(Request::Completed completed, void* owner) noexcept {
    completed_ = completed;
    owner_ = owner;
  }

  /// Errors: Error{Unavailable} where the provider registers no more memory.
  Frame& take();
  void give(Frame& frame) { free_.push_back(&frame); }
  std::size_t frame_bytes() const noexcept { return frame_bytes_; }
  /// Frames that are out.
  std::size_t taken() const noexcept { return frames_.size() - free_.size(); }

 private:
  static constexpr std::size_t kSlabBytes = 512 * 1024;
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    Handle<fid_mr> registration;
  };

  void grow();

  Rail& rail_;
  std::size_t frame_bytes_;
  Request::Completed completed_ = nullptr;
  void* owner_ = nullptr;
  std::vector<Slab> slabs_;
  std::deque<Frame> frames_;
  std::vector<Frame*> free_;
};

}  // namespace sinew::ofi
