#pragma once

#include <cstddef>
#include <vector>

#include <sinew/core/transport/device.hpp>

namespace sinew::nccl {

/// Device memory for calls of one stream that may not run in place. It grows to the largest of them.
class Scratch {
 public:
  Scratch(DeviceRuntime& runtime, int device) : runtime_(runtime), device_(device) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// For what is enqueued on the stream until the next call of this.
  Buffer at_least(std::size_t bytes, StreamRef stream);
  /// Memory that no other call gets, for a captured call: its graph may be replayed as long as this lives.
  Buffer kept(std::size_t bytes);
  std::size_t bytes() const noexcept { return memory_.bytes + kept_bytes_; }

 private:
  /// Too small now; the stream may still use it until the event.
  struct Outgrown {
    Buffer memory;
    DeviceRuntime::Event until;
  };

  DeviceRuntime& runtime_;
  const int device_;
  Buffer memory_;
  std::vector<Outgrown> outgrown_;
  std::vector<Buffer> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace sinew::nccl
