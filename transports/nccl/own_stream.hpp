#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <sinew/core/transport/device.hpp>
#include <sinew/transports/nccl/endings.hpp>
#include <sinew/transports/nccl/scratch.hpp>

namespace sinew::nccl {

/// The stream on which one communicator's calls run, and the memory between them. Calls of different communicators have
/// different streams, so that they overlap on the device.
class OwnStream {
 public:
  /// Errors: as DeviceRuntime::make_stream.
  OwnStream(DeviceRuntime& runtime, int device, StreamPriority priority)
      : runtime_(runtime), stream_(runtime.make_stream(device, priority)), scratch_(runtime, device) {}
  ~OwnStream() { runtime_.release(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  StreamRef stream() const noexcept { return stream_; }
  Scratch& scratch() noexcept { return scratch_; }

 private:
  DeviceRuntime& runtime_;
  StreamRef stream_;
  Scratch scratch_;
};

/// Streams of communicators that have ended. Each is kept until NCCL is through with its communicator.
/// Thread: of the World's engine.
class LeftStreams {
 public:
  void keep(std::unique_ptr<OwnStream> stream, Endings::Done until) {
    std::erase_if(left_, [](const auto& l) { return !l.second || l.second->load(std::memory_order_acquire); });
    left_.emplace_back(std::move(stream), std::move(until));
  }

 private:
  std::vector<std::pair<std::unique_ptr<OwnStream>, Endings::Done>> left_;
};

}  // namespace sinew::nccl
