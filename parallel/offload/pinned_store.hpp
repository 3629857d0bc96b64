#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/parallel/offload/offload_store.hpp>

namespace sinew::parallel {

/// A store in pinned memory of the host, for arrays in the memory of a device. Copies run on a stream of their own,
/// beside the engine's stream. A copy begins after the work that is on the engine's stream at the time of the call.
/// Pinned memory of released slots is used again. It is freed at the end of the store.
/// Thread:   that of the runtime.
/// Lifetime: ends before the runtime and the stream.
/// Errors:   those of the runtime. read() throws InvalidArgument for an array of another length.
/// Cost:     wait() for an array in device memory does not wait: it orders the engine's stream behind the copy.
/// Source:   Rajbhandari et al., ZeRO-Infinity, arXiv 2104.07857.
class SINEW_API PinnedStore final : public OffloadStore {
 public:
  /// engine: the stream on which the engine computes.
  PinnedStore(DeviceRuntime& runtime, StreamRef engine);
  ~PinnedStore() override;

  Slot write(ConstBuffer from) override;
  void read(Slot slot, Buffer to) override;
  bool done(Slot slot) override;
  void wait(Slot slot) override;
  void release(Slot slot) noexcept override;
  std::size_t stored_bytes() const noexcept override { return stored_; }
  std::uint64_t copied_bytes() const noexcept override { return copied_; }
  /// Bytes of pinned memory, in use or not.
  std::size_t pinned_bytes() const noexcept { return pinned_; }

 private:
  struct Array {
    Buffer memory;              // pinned, at least as long as the array
    std::size_t bytes;          // of the array
    bool on_device;             // the array that is copied
    DeviceRuntime::Event copy;  // after the last copy
  };

  Buffer take(std::size_t bytes);
  void copy_after_engine(Buffer to, ConstBuffer from);

  DeviceRuntime* runtime_;
  StreamRef engine_, copies_;
  std::unordered_map<Slot, Array> arrays_;
  std::map<std::size_t, std::vector<Buffer>> idle_;  // by bytes
  Slot last_ = 0;
  std::size_t stored_ = 0, pinned_ = 0;
  std::uint64_t copied_ = 0;
};

}  // namespace sinew::parallel
