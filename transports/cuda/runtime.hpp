#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/transports/cuda/driver.hpp>
#include <sinew/transports/cuda/kernels.hpp>

namespace sinew::cuda {

/// Makes a device's primary context current, the one that the CUDA runtime and every framework uses, and puts back
/// what was current before.
class SINEW_API Current {
 public:
  explicit Current(Context context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

/// CUDA's devices through the driver. A device's context is made when something is first asked of it.
/// Errors: the constructor throws Error{Unavailable} where there is no driver or no device.
class SINEW_API Runtime : public DeviceRuntime {
 public:
  Runtime();
  ~Runtime() override;

  int device_count() override { return static_cast<int>(devices_.size()); }
  Traits traits(int device) override;
  Place place_of(const void* address) override;
  Buffer allocate(std::size_t bytes, Place place) override;
  void release(Buffer memory) noexcept override;
  using DeviceRuntime::make_stream;
  StreamRef make_stream(int device, StreamPriority priority) override;
  void release(StreamRef stream) noexcept override;
  std::uint64_t capture_of(StreamRef stream) override;
  void copy_async(Buffer to, ConstBuffer from, StreamRef stream) override;
  void copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch, std::size_t row_bytes,
                       std::size_t rows, StreamRef stream) override;
  void reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) override;
  void zero_async(Buffer memory, StreamRef stream) override;
  void launch(const DeviceProgram& program, const KernelLaunch& launch, StreamRef stream) override;
  Event record(StreamRef stream) override;
  void wait(StreamRef stream, Event event) override;
  bool query(Event event) override;
  int make_current(int device) override;
  void release(Event event) noexcept override;

  /// dst = sources[0] (op) sources[1] (op) ..., then times `scale` (1: not), all on the stream's device or mapped
  /// there.
  void combine_async(Buffer dst, std::span<const void* const> sources, ReduceOp op, DType dtype, double scale,
                     StreamRef stream);
  Context context_of(int device);

 private:
  struct LoadedProgram {
    Library library = nullptr;
    std::map<std::string, Function, std::less<>> functions;
  };
  Event spare_event(int device);
  struct OfDevice {
    Context context = nullptr;
    std::unique_ptr<Kernels> kernels;
    std::map<const void*, LoadedProgram> programs;  // by image
    std::vector<Event> spare;                       // making an event costs more than recording it
  };
  struct Made {
    EventHandle handle = nullptr;
    int device = 0;
  };
  Made made(Event event) const {
    const std::scoped_lock lock(events_mutex_);
    return events_[event - 1];
  }

  std::vector<OfDevice> devices_;
  mutable std::mutex events_mutex_;  // and for OfDevice::spare
  std::vector<Made> events_;         // an Event is a place in it, from 1 on
};

}  // namespace sinew::cuda
