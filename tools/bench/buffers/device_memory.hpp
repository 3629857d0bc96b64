#pragma once

#include <cstddef>
#include <memory>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/transport/device.hpp>

#include "buffer_ring.hpp"

namespace sinew::tools {

/// Buffers in the memory of this rank's device. Data are made and compared on the host, in pinned memory of the same
/// length.
/// Lifetime: this object outlives what it allocated.
class DeviceMemory {
 public:
  /// Takes the device that a World takes: the rank's place among the ranks of its host, modulo the number of devices.
  /// Errors: Error{Unavailable} with the driver's reason.
  explicit DeviceMemory(int place_on_host);
  ~DeviceMemory() { runtime_->release(stream_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Place place() const noexcept { return {MemoryKind::Device, stream_.device}; }
  /// `known_by`: a communicator that allocates the memory; all its ranks call this together. Null: plain device memory.
  RingMemory allocate(std::size_t bytes, Communicator* known_by);

 private:
  std::unique_ptr<DeviceRuntime> runtime_;
  StreamRef stream_;
};

}  // namespace sinew::tools
